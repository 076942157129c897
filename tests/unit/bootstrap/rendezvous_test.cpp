// Who may join, what goes wrong, and that everybody who waits is told.
#include <cstring>
#include <random>

#include "bootstrap/rendezvous.hpp"
#include "bootstrap/rendezvous_messages.hpp"
#include "unit/bootstrap/ranks.hpp"

namespace twohop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

/// The five kinds of connections that do not belong to the job, kept open where they stay silent; fewer when the root
/// has done its work and closed its port.
std::vector<Fd> send_garbage(const SocketAddress& to) {
  std::mt19937 random(42);
  Bytes noise(1000);
  for (auto& b : noise) b = static_cast<std::byte>(random());
  std::vector<Fd> open;
  for (const Bytes& data : {noise, bytes_of("GET / HTTP/1.1\r\nHost: example\r\n\r\n"), bytes_of("2hop\x01\x01")}) {
    auto fd = connect_to(to, in(milliseconds(500)));
    if (!fd) return open;
    (void)send_all(fd->get(), data, in(seconds(5)));
    open.push_back(std::move(*fd));
  }
  if (auto closed_at_once = connect_to(to, in(milliseconds(500))); !closed_at_once) return open;
  auto wrong = connect_to(to, in(milliseconds(500)));
  if (!wrong) return open;
  EXPECT_FALSE(handshake(wrong->get(), random_secret(), Purpose::kRendezvous, bytes_of("x"), in(seconds(5))));
  open.push_back(std::move(*wrong));
  return open;
}

/// How long it took them.
milliseconds join_eight_ranks_beside_garbage() {
  auto id = make_unique_id(loopback_options());
  EXPECT_TRUE(id);
  const auto garbage = send_garbage(decode(*id)->root);
  EXPECT_EQ(garbage.size(), 4u) << "and one that closed";
  const auto start = std::chrono::steady_clock::now();
  std::thread more([&] { send_garbage(decode(*id)->root); });
  const Controls controls = join_all(*id, 8);
  const auto took = std::chrono::steady_clock::now() - start;
  more.join();
  for (const auto& c : controls) EXPECT_TRUE(c);
  return std::chrono::duration_cast<milliseconds>(took);
}

TEST(Rendezvous, JoinsEightRanksBesideGarbage) {
  // A silent connection is borne for 3 s. So long may a busy machine take, too, but hardly three times.
  milliseconds best = milliseconds::max();
  for (int tries = 0; tries < 3 && best >= milliseconds(2500); tries++)
    best = std::min(best, join_eight_ranks_beside_garbage());
  EXPECT_LT(best, milliseconds(2500)) << "somebody waited for a silent connection";
}

TEST(Rendezvous, NamesTheMissingRanksToAllThatWait) {
  auto id = make_unique_id(loopback_options());
  std::mutex mutex;
  std::vector<std::string> messages;
  run_ranks(8, [&](int r) {
    if (r == 3 || r == 5) return;
    auto c = Control::join(*id, r, 8, in(milliseconds(1500)));
    ASSERT_FALSE(c);
    EXPECT_EQ(c.error().code, twohopTimeout) << c.error().message;
    const std::lock_guard lock(mutex);
    messages.push_back(c.error().message);
  });
  ASSERT_EQ(messages.size(), 6u);
  for (const auto& m : messages) EXPECT_THAT(m, HasSubstr("2 of 8 ranks did not join in time: ranks 3, 5."));
}

TEST(Rendezvous, TellsAllThatARankJoinedTwice) {
  auto id = make_unique_id(loopback_options());
  run_ranks(4, [&](int r) {  // ranks 0, 1, 1, 2 of 4
    auto c = Control::join(*id, r < 2 ? r : r - 1, 4, in(seconds(20)));
    ASSERT_FALSE(c);
    EXPECT_EQ(c.error().code, twohopInvalidUsage);
    EXPECT_THAT(c.error().message, HasSubstr("rank 1 joined twice"));
  });
}

TEST(Rendezvous, TellsAllThatRanksDisagreeOnTheirNumber) {
  auto id = make_unique_id(loopback_options());
  run_ranks(3, [&](int r) {
    auto c = Control::join(*id, r, r == 2 ? 4 : 3, in(seconds(20)));
    ASSERT_FALSE(c);
    EXPECT_EQ(c.error().code, twohopInvalidUsage);
    EXPECT_THAT(c.error().message, HasSubstr("nranks=4"));
    EXPECT_THAT(c.error().message, HasSubstr("nranks=3"));
  });
}

/// Joins as `rank` of `nranks` and waits for the others.
Result<Fd> hello_only(const twohopUniqueId& id, int rank, int nranks) {
  const UniqueIdContent content = *decode(id);
  const Bytes hello = encode(RankHello{rank, nranks, 20'000, content.root, "host:1"});
  return connect_proved(content.root, content.secret, Purpose::kRendezvous, hello, 1, in(seconds(5)));
}

TEST(Rendezvous, TellsAllAtOnceThatARankLeftWhileItWaited) {
  auto id = make_unique_id(loopback_options());
  auto leaver = hello_only(*id, 1, 4);
  auto witness = hello_only(*id, 2, 4);
  ASSERT_TRUE(leaver && witness);
  const auto start = std::chrono::steady_clock::now();
  leaver->reset();
  auto answer = receive_answer(witness->get(), in(seconds(15)));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));
  ASSERT_TRUE(answer && answer->failure);
  EXPECT_EQ(answer->failure->rank, 1);
  EXPECT_THAT(answer->failure->message, HasSubstr("rank 1 (host:1) left before all had joined"));
  auto late = Control::join(*id, 0, 4, in(seconds(5)));
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("rank 1 (host:1) left")) << "late ranks are told, too";
}

TEST(Rendezvous, ARankThatTalksOutOfTurnAndLeavesIsNoticedToo) {
  auto id = make_unique_id(loopback_options());
  auto leaver = hello_only(*id, 0, 2);
  ASSERT_TRUE(leaver);
  EXPECT_TRUE(send_all(leaver->get(), bytes_of("unasked"), in(seconds(1))));
  leaver->reset();
  auto other = Control::join(*id, 1, 2, in(seconds(10)));
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("rank 0 (host:1) left"));
}

TEST(Rendezvous, TellsAllOfARankThatSpeaksAnotherVersion) {
  auto id = make_unique_id(loopback_options());
  const UniqueIdContent content = *decode(*id);
  std::thread other([&] {
    Bytes hello = encode(RankHello{1, 2, 20'000, content.root, "host:1"});
    hello[0] = std::byte{77};
    auto fd = connect_proved(content.root, content.secret, Purpose::kRendezvous, hello, 1, in(seconds(5)));
    auto answer = receive_answer(fd->get(), in(seconds(5)));
    EXPECT_THAT(answer->failure->message, HasSubstr("version 77"));
  });
  auto c = Control::join(*id, 0, 2, in(seconds(20)));
  other.join();
  ASSERT_FALSE(c);
  EXPECT_THAT(c.error().message, HasSubstr("version 77"));
}

TEST(Rendezvous, ReadsOnlyWellFormedHellos) {
  const Bytes good = encode(RankHello{1, 2, 3, *resolve("127.0.0.1", 4), "host:1"});
  EXPECT_TRUE(decode_hello(good));
  for (size_t n = 0; n < good.size(); n++) EXPECT_FALSE(decode_hello(std::span(good).first(n))) << n;
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_hello(longer));
  EXPECT_FALSE(decode_hello(encode(RankHello{2, 2, 3, *resolve("127.0.0.1", 4), "x"})));
  EXPECT_FALSE(decode_hello(encode(RankHello{0, kMaxRanks + 1, 3, *resolve("127.0.0.1", 4), "x"})));
}

TEST(Rendezvous, RefusesAWrongSecretWithoutHarmToTheOthers) {
  auto id = make_unique_id(loopback_options());
  UniqueIdContent stolen = *decode(*id);
  stolen.secret = random_secret();
  auto refused = Control::join(encode(stolen), 0, 2, in(seconds(10)));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("the root refused this rank's proof: the unique id is not"));
  EXPECT_EQ(join_all(*id, 2).size(), 2u);
}

TEST(Rendezvous, ChecksRankAndNumberBeforeItConnects) {
  auto id = make_unique_id(loopback_options());
  EXPECT_EQ(Control::join(*id, 2, 2, in(seconds(1))).error().code, twohopInvalidArgument);
  EXPECT_EQ(Control::join(*id, -1, 2, in(seconds(1))).error().code, twohopInvalidArgument);
  EXPECT_EQ(Control::join(*id, 0, 0, in(seconds(1))).error().code, twohopInvalidArgument);
  EXPECT_EQ(Control::join(twohopUniqueId{}, 0, 1, in(seconds(1))).error().code, twohopInvalidArgument);
}

TEST(Rendezvous, NamesTheRootThatDoesNotAnswer) {
  SocketAddress nobody;
  {
    auto placeholder = listen_on(*resolve("127.0.0.1", 0));
    nobody = *local_address(placeholder->get());
  }
  auto c = Control::join(encode(UniqueIdContent{nobody, random_secret()}), 0, 1, in(milliseconds(100)));
  EXPECT_EQ(c.error().code, twohopTimeout);
  EXPECT_THAT(c.error().message, HasSubstr(nobody.to_string()));
}

// ---- By environment ----------------------------------------------------------------------------------------------

int free_port() {
  auto placeholder = listen_on(*resolve("127.0.0.1", 0));
  return local_address(placeholder->get())->port();
}

LauncherEnv launcher(int rank, int world_size, int port) {
  return {rank, world_size, rank, "127.0.0.1", port - 1};
}

Result<std::unique_ptr<Control>> join_by_environment(int rank, int nranks, int port, const Options& options,
                                                     uint64_t sequence) {
  auto id = make_env_unique_id(launcher(rank, nranks, port), options, sequence);
  if (!id) return id.error();
  return Control::join(*id, rank, nranks, in(seconds(20)));
}

TEST(EnvironmentRendezvous, ServesCommunicatorsOneAfterTheOtherOnOnePort) {
  const int port = free_port();
  Options options = loopback_options();
  options.job_secret = "a secret";
  run_ranks(5, [&](int r) {
    for (uint64_t sequence = 0; sequence < 4; sequence++) {
      auto c = join_by_environment(r, 5, port, options, sequence);
      EXPECT_TRUE(c) << "rank " << r << ", communicator " << sequence << ": " << c.error().message;
    }
  });
}

TEST(EnvironmentRendezvous, LetsEarlyRanksWaitForRankZeroAndForTheCommunicatorBefore) {
  const int port = free_port();
  const Options options = loopback_options();
  std::vector<std::unique_ptr<Control>> first(3), second(3);
  std::thread rank1([&] {  // does the second communicator first
    second[1] = std::move(*join_by_environment(1, 3, port, options, 1));
  });
  std::thread rank2([&] {
    first[2] = std::move(*join_by_environment(2, 3, port, options, 0));
    second[2] = std::move(*join_by_environment(2, 3, port, options, 1));
  });
  std::thread rank0([&] {  // both roots at once
    auto id0 = make_env_unique_id(launcher(0, 3, port), options, 0);
    auto id1 = make_env_unique_id(launcher(0, 3, port), options, 1);
    first[0] = std::move(*Control::join(*id0, 0, 3, in(seconds(20))));
    second[0] = std::move(*Control::join(*id1, 0, 3, in(seconds(20))));
  });
  first[1] = std::move(*join_by_environment(1, 3, port, options, 0));
  rank0.join();
  rank1.join();
  rank2.join();
  for (int r = 0; r < 3; r++) EXPECT_TRUE(first[r] && second[r]);
}

TEST(EnvironmentRendezvous, RefusesANetworkAddressWithoutASecret) {
  for (int rank : {0, 1}) {
    LauncherEnv env{rank, 2, 0, "192.0.2.1", 29500};
    auto id = make_env_unique_id(env, Options{});
    ASSERT_FALSE(id);
    EXPECT_EQ(id.error().code, twohopInvalidUsage);
    EXPECT_THAT(id.error().message, HasSubstr("192.0.2.1"));
    EXPECT_THAT(id.error().message, HasSubstr("set TWOHOP_JOB_SECRET"));
  }
}

TEST(EnvironmentRendezvous, TakesANetworkAddressWithASecret) {
  Options options;
  options.job_secret = "s";
  auto id = make_env_unique_id(LauncherEnv{1, 2, 0, "192.0.2.1", 29500}, options);
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_EQ(decode(*id)->root.to_string(), "192.0.2.1:29501");
}

TEST(EnvironmentRendezvous, AnotherJobSecretDoesNotGetIn) {
  const int port = free_port();
  Options ours = loopback_options(), theirs = loopback_options();
  ours.job_secret = "ours";
  theirs.job_secret = "theirs";
  auto stranger = make_env_unique_id(launcher(1, 2, port), theirs, 0);
  run_ranks(3, [&](int r) {
    if (r < 2) {
      EXPECT_TRUE(join_by_environment(r, 2, port, ours, 0));
    } else {
      EXPECT_FALSE(Control::join(*stranger, 1, 2, in(milliseconds(500))));
    }
  });
}

TEST(EnvironmentRendezvous, NamesAWrongJobSecretToBothSides) {
  const int port = free_port();
  Options ours = loopback_options(2), theirs = loopback_options(2);
  ours.job_secret = "aa";
  theirs.job_secret = "bb";
  run_ranks(2, [&](int r) {
    auto id = make_env_unique_id(launcher(r, 2, port), r == 0 ? ours : theirs, 0);
    ASSERT_TRUE(id) << id.error().message;
    auto c = Control::join(*id, r, 2, in(seconds(2)));
    ASSERT_FALSE(c);
    EXPECT_THAT(c.error().message, HasSubstr("TWOHOP_JOB_SECRET"));
    EXPECT_THAT(c.error().message, HasSubstr(r == 0 ? "1 of 2 ranks did not join" : "refused this rank's proof"));
  });
}

TEST(Rendezvous, NamesTheRefusalThoughTheRootHasEndedSince) {
  auto listener = listen_on(*resolve("127.0.0.1", 0));
  const SocketAddress address = *local_address(listener->get());
  std::thread root([&] {
    Acceptor acceptor(std::move(*listener), random_secret(), Purpose::kRendezvous);
    const Deadline limit = in(seconds(10));
    while (acceptor.unproved() == 0 && std::chrono::steady_clock::now() < limit)
      EXPECT_FALSE(acceptor.next(in(milliseconds(20))));
  });
  auto c = Control::join(encode(UniqueIdContent{address, random_secret(), true}), 1, 2, in(milliseconds(1500)));
  root.join();
  ASSERT_FALSE(c);
  EXPECT_THAT(c.error().message, HasSubstr("TWOHOP_JOB_SECRET differs from rank 0's"));
}

TEST(Rendezvous, CountsOnlyConnectionsThatKnowTheProtocolAsWronglyProved) {
  auto listener = listen_on(*resolve("127.0.0.1", 0));
  const SocketAddress address = *local_address(listener->get());
  Acceptor acceptor(std::move(*listener), random_secret(), Purpose::kRendezvous);
  std::thread strangers([&] { send_garbage(address); });  // one of the five has another secret
  const Deadline limit = in(seconds(10));
  while (acceptor.unproved() == 0 && std::chrono::steady_clock::now() < limit)
    EXPECT_FALSE(acceptor.next(in(milliseconds(20))));
  strangers.join();
  EXPECT_FALSE(acceptor.next(in(milliseconds(20))));
  EXPECT_EQ(acceptor.unproved(), 1u);
}

TEST(EnvironmentRendezvous, NamesThePortThatIsTaken) {
  auto holder = listen_on(*resolve("127.0.0.1", 0));
  const int port = local_address(holder->get())->port();
  auto id = make_env_unique_id(launcher(0, 1, port), Options{});
  EXPECT_THAT(id.error().message, HasSubstr(std::to_string(port)));
  EXPECT_THAT(id.error().message, HasSubstr("TWOHOP_PORT"));
}

TEST(EnvironmentRendezvous, ExplainsABadPort) {
  LauncherEnv env{0, 1, 0, "127.0.0.1", 65535};
  EXPECT_THAT(make_env_unique_id(env, Options{}).error().message,
              HasSubstr("MASTER_PORT=65535: accepted are 1 to 65534; the launcher sets it, and rank 0 listens on"));
  env.master_port = -1;
  EXPECT_FALSE(make_env_unique_id(env, Options{}));
  Options options;
  options.port = free_port();
  EXPECT_TRUE(make_env_unique_id(env, options)) << "TWOHOP_PORT needs no MASTER_PORT";
}

}  // namespace
}  // namespace twohop
