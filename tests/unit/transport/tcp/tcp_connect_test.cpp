// Whether ranks find each other, and what is said when one is missing, plans something else or is no rank at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <cstring>
#include <optional>

#include "../cluster.hpp"
#include "transport/tcp/tcp_wire.hpp"

namespace twohop::test {
namespace {

using ::testing::HasSubstr;

constexpr size_t kInbox = 4096;

Rank make_rank(int rank, const Secret& secret) {
  Rank r;
  r.rank = rank;
  auto endpoint = make_tcp_endpoint(rank, "lo", secret);
  EXPECT_TRUE(endpoint) << endpoint.error().message;
  r.endpoint = std::move(*endpoint);
  return r;
}

SocketAddress parse(const Bytes& blob) {
  SocketAddress a;
  EXPECT_EQ(blob.size(), sizeof a);
  std::memcpy(&a, blob.data(), sizeof a);
  return a;
}

template <class T>
std::span<const std::byte> bytes_of(const T& v) {
  return std::as_bytes(std::span(&v, 1));
}

tcp::Hello hello_of(int src, int dst, uint16_t channel) {
  return {tcp::kWireVersion, 0, htole16(channel), static_cast<int32_t>(htole32(src)),
          static_cast<int32_t>(htole32(dst))};
}

/// A raw socket that completes setup as rank 0 with one link (tag 0, 0 -> 1) to `address`.
Fd raw_rank_0(const SocketAddress& address, const Secret& secret) {
  auto fd = connect_to(address, in_seconds(5));
  EXPECT_TRUE(fd);
  EXPECT_TRUE(handshake(fd->get(), secret, Purpose::kData, bytes_of(hello_of(0, 1, 0)), in_seconds(5)));
  const tcp::LinkTableHeader header{tcp::kWireVersion, {}, htole32(1)};
  const tcp::LinkRow row{0, 1, {}, htole64(kInbox)};
  EXPECT_TRUE(send_all(fd->get(), bytes_of(header), in_seconds(5)));
  EXPECT_TRUE(send_all(fd->get(), bytes_of(row), in_seconds(5)));
  std::array<std::byte, sizeof header + sizeof row> theirs;
  EXPECT_TRUE(receive_all(fd->get(), theirs, in_seconds(5)));
  return std::move(*fd);
}

/// Rank 1 connects while `peer` plays rank 0; returns rank 1's result.
Result<> connect_with(Rank& rank1, const std::function<void(SocketAddress)>& peer, double seconds = 10) {
  const std::vector<Bytes> addresses(2, rank1.endpoint->address());
  std::thread other([&] { peer(parse(rank1.endpoint->address())); });
  Result<> r = connect_rank(rank1, {{{0, 0, 0, 1}, kInbox}}, addresses, in_seconds(seconds));
  other.join();
  return r;
}

TEST(TcpConnect, NamesTheRankThatDoesNotCome) {
  const Secret secret = random_secret();
  Rank r1 = make_rank(1, secret);
  const std::vector<Bytes> addresses(2, r1.endpoint->address());
  const std::vector<LinkPlan> links = {{{0, 0, 0, 1}, kInbox}, {{2, 0, 1, 0}, kInbox}};
  auto r = connect_rank(r1, links, addresses, in_seconds(0.2));
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, twohopTimeout);
  EXPECT_EQ(r.error().rank, 0);
  EXPECT_THAT(r.error().message, HasSubstr("rank 0 (channel 0), rank 0 (channel 2)"));
}

TEST(TcpConnect, EndsWhenItIsStopped) {
  for (int rank : {0, 1, 2}) {  // connects; connects and accepts; accepts
    const Secret secret = random_secret();
    Rank r = make_rank(rank, secret);
    SocketAddress nobody = parse(r.endpoint->address());
    nobody.set_port(1);
    const auto bytes = bytes_of(nobody);
    const std::vector<Bytes> addresses(3, Bytes(bytes.begin(), bytes.end()));
    Fd stop(::eventfd(0, EFD_CLOEXEC));
    std::thread other([&] {
      // Whether it waits by then or not.
      ASSERT_EQ(::eventfd_write(stop.get(), 1), 0);
    });
    const int lower = rank == 2 ? 1 : 0, higher = rank == 0 ? 1 : 2;
    std::vector<OutLink> out;
    if (rank < 2) out.push_back({.id = {0, 0, rank, higher}, .inbox_bytes = kInbox});
    std::vector<InLink> in;
    r.inboxes.emplace_back(kInbox);
    if (rank > 0) in.push_back({.id = {0, 0, lower, rank}, .inbox = r.inboxes[0], .tags = {}});
    const auto connected = r.endpoint->connect(std::move(out), std::move(in), addresses, in_seconds(60), stop.get());
    other.join();
    ASSERT_FALSE(connected);
    EXPECT_EQ(connected.error().code, twohopAborted) << connected.error().message;
  }
}

TEST(TcpConnect, NamesTheRankThatDoesNotAnswer) {
  const Secret secret = random_secret();
  Rank r0 = make_rank(0, secret), r1 = make_rank(1, secret);  // rank 1 listens, but never calls connect()
  const std::vector<Bytes> addresses = {r0.endpoint->address(), r1.endpoint->address()};
  auto r = connect_rank(r0, {{{0, 0, 0, 1}, kInbox}}, addresses, in_seconds(0.2));
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, twohopTimeout);
  EXPECT_EQ(r.error().rank, 1);
  EXPECT_THAT(r.error().message, HasSubstr("data connection with rank 1 (channel 0)"));
}

TEST(TcpConnect, StopsAcceptingWhenConnectingFailed) {
  const Secret secret = random_secret();
  Rank r1 = make_rank(1, secret);
  std::vector<Bytes> addresses(3, r1.endpoint->address());
  const std::vector<LinkPlan> links = {{{0, 0, 0, 1}, kInbox}, {{0, 0, 1, 2}, kInbox}};
  {
    Rank r2 = make_rank(2, random_secret());  // another job's secret, and nobody accepts
    addresses[2] = r2.endpoint->address();
  }
  auto r = connect_rank(r1, links, addresses, in_seconds(0.3));
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, twohopTimeout);
}

TEST(TcpConnect, RefusesAddressesThatAreNone) {
  Rank r0 = make_rank(0, random_secret());
  const std::vector<Bytes> addresses = {r0.endpoint->address(), Bytes(3)};
  auto r = connect_rank(r0, {{{0, 0, 0, 1}, kInbox}}, addresses, in_seconds(5));
  ASSERT_FALSE(r);
  EXPECT_THAT(r.error().message, HasSubstr("address of rank 1 has 3 bytes"));
}

/// Both ranks' errors when they disagree on the links.
std::pair<std::string, std::string> disagreement(const std::vector<LinkPlan>& at0, const std::vector<LinkPlan>& at1) {
  const Secret secret = random_secret();
  Rank r0 = make_rank(0, secret), r1 = make_rank(1, secret);
  const std::vector<Bytes> addresses = {r0.endpoint->address(), r1.endpoint->address()};
  Result<> result0, result1;
  std::thread other([&] { result1 = connect_rank(r1, at1, addresses, in_seconds(10)); });
  result0 = connect_rank(r0, at0, addresses, in_seconds(10));
  other.join();
  return {result0 ? "" : result0.error().message, result1 ? "" : result1.error().message};
}

TEST(TcpConnect, BothRanksSeeThatTheirInboxSizesDiffer) {
  const auto [at0, at1] = disagreement({{{0, 9, 0, 1}, 4096}}, {{{0, 9, 0, 1}, 8192}});
  EXPECT_THAT(at0, HasSubstr("the inbox of outgoing link tag 9 has 8192 bytes there and 4096 here"));
  EXPECT_THAT(at1, HasSubstr("the inbox of incoming link tag 9 has 4096 bytes there and 8192 here"));
}

TEST(TcpConnect, BothRanksSeeThatTheirLinksDiffer) {
  const auto [at0, at1] = disagreement({{{0, 1, 0, 1}, 64}}, {{{0, 2, 0, 1}, 64}});
  EXPECT_THAT(at0, HasSubstr("a link with tag 2 that this rank lacks as outgoing"));
  EXPECT_THAT(at1, HasSubstr("a link with tag 1 that this rank lacks as incoming"));
  const auto [more0, more1] = disagreement({{{0, 1, 0, 1}, 64}, {{0, 2, 1, 0}, 64}}, {{{0, 1, 0, 1}, 64}});
  EXPECT_THAT(more0, HasSubstr("it has 1 links"));
  EXPECT_THAT(more1, HasSubstr("it has 2 links"));
}

TEST(TcpConnect, RefusesAProvenPeerThatAsksForAnUnknownChannel) {
  const Secret secret = random_secret();
  Rank r1 = make_rank(1, secret);
  auto r = connect_with(r1, [&](const SocketAddress& address) {
    auto fd = connect_to(address, in_seconds(5));
    ASSERT_TRUE(fd);
    EXPECT_TRUE(handshake(fd->get(), secret, Purpose::kData, bytes_of(hello_of(0, 1, 77)), in_seconds(5)));
  });
  ASSERT_FALSE(r);
  EXPECT_THAT(r.error().message, HasSubstr("rank 0 asks rank 1 for a data connection on channel 77"));
}

TEST(TcpConnect, IsNotDisturbedByPeersWithAWrongSecret) {
  const Secret secret = random_secret();
  Rank r1 = make_rank(1, secret);
  Fd good;
  auto r = connect_with(r1, [&](const SocketAddress& address) {
    auto bad = connect_to(address, in_seconds(5));
    ASSERT_TRUE(bad);
    EXPECT_FALSE(handshake(bad->get(), random_secret(), Purpose::kData, bytes_of(hello_of(0, 1, 0)), in_seconds(5)));
    good = raw_rank_0(address, secret);
  });
  EXPECT_TRUE(r) << r.error().message;
}

TEST(TcpConnect, AProvenPeerThatBreaksTheProtocolIsAnErrorThatNamesIt) {
  struct Case {
    tcp::PutFrame frame;
    size_t bytes;
    const char* complaint;
  };
  tcp::PutFrame good{};
  good.header = tcp::encode_header(tcp::FrameKind::kPut, 0, 1);
  tcp::PutFrame version = good, tag = good, offset = good, sequence = good, credit = good;
  version.header.version = 2;
  tag.header.tag = htole16(1);
  offset.runs[0] = {htole64(kInbox), htole64(1)};
  sequence.header.count = htole64(2);
  credit.header = tcp::encode_header(tcp::FrameKind::kCredit, 0, 5);
  const Case cases[] = {
      {version, 64, "frame of version 2"},    {tag, 64, "put on link tag 1"},
      {offset, 64, "1 bytes at offset 4096"}, {sequence, 64, "put number 2 on link tag 0, expected 1"},
      {credit, 16, "credit for link tag 0"},  {good, 30, "closed its connection"}};
  for (const Case& c : cases) {
    const Secret secret = random_secret();
    Rank r1 = make_rank(1, secret);
    auto r = connect_with(r1, [&](const SocketAddress& address) {
      Fd fd = raw_rank_0(address, secret);
      EXPECT_TRUE(send_all(fd.get(), bytes_of(c.frame).first(c.bytes), in_seconds(5)));
    });
    ASSERT_TRUE(r) << r.error().message;
    const Error error = poll_until_error(*r1.endpoint, 5);
    EXPECT_EQ(error.code, twohopRemoteError);
    EXPECT_EQ(error.rank, 0);
    EXPECT_THAT(error.message, HasSubstr(c.complaint));
    EXPECT_THAT(error.message, HasSubstr("rank 0 (127.0.0.1:"));
  }
}

TEST(TcpConnect, ConnectsManyRanksWithEachOther) {
  std::vector<LinkPlan> links;
  for (int src = 0; src < 8; ++src)
    for (int dst = 0; dst < 8; ++dst)
      if (src != dst) links.push_back({{static_cast<uint16_t>(src % 2), 0, src, dst}, 64});
  run_cluster(8, links, [](Rank& r) { EXPECT_TRUE(r.endpoint->drain(in_seconds(10))); });
}

}  // namespace
}  // namespace twohop::test
