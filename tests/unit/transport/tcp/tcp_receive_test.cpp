// What a connection makes of bytes that no honest peer sends, and of honest bytes cut anywhere. The peer is a raw
// socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "transport/tcp/tcp_connection.hpp"

namespace twohop::tcp {
namespace {

using ::testing::HasSubstr;

constexpr size_t kInboxBytes = 256, kGuardBytes = 64;
constexpr std::byte kGuard{0xa5};

/// A connection to rank 7 with out link tag 1 and in links tags 2 and 3, whose inboxes are guarded on both sides.
class HostilePeer : public ::testing::Test {
 protected:
  HostilePeer() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    peer_ = Fd(fds[1]);
    memory_.assign(2 * (kInboxBytes + kGuardBytes) + kGuardBytes, kGuard);
    out_.id = {.channel = 4, .tag = 1, .src = 0, .dst = 7};
    out_.inbox_bytes = kInboxBytes;
    for (int i = 0; i < 2; ++i) {
      in_[i].id = {.channel = 4, .tag = static_cast<uint16_t>(2 + i), .src = 7, .dst = 0};
      in_[i].inbox = {memory_.data() + kGuardBytes + i * (kInboxBytes + kGuardBytes), kInboxBytes};
    }
    connection_ = std::make_unique<Connection>(Fd(fds[0]), 7, 4, "10.0.0.7:4711", std::vector<OutLink*>{&out_},
                                               std::vector<InLink*>{&in_[0], &in_[1]}, &counters_);
  }
  ~HostilePeer() override {
    for (size_t gap : {size_t{0}, kGuardBytes + kInboxBytes, 2 * (kGuardBytes + kInboxBytes)})
      for (size_t i = 0; i < kGuardBytes; ++i) EXPECT_EQ(memory_[gap + i], kGuard) << "written outside the inbox";
  }

  void send_bytes(const void* data, size_t bytes) {
    ASSERT_EQ(::send(peer_.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
  void send_header(FrameHeader h) { send_bytes(&h, sizeof h); }
  static PutFrame put_frame(uint16_t tag, uint64_t number, uint64_t offset = 0, uint64_t bytes = 0) {
    PutFrame f{};
    f.header = encode_header(FrameKind::kPut, tag, number);
    f.runs[0] = {htole64(offset), htole64(bytes)};
    return f;
  }
  void send_put(const PutFrame& f) { send_bytes(&f, sizeof f); }

  /// What receive() complains of; every complaint names the peer.
  std::string complaint(twohopResult_t code = twohopRemoteError) {
    auto r = connection_->receive();
    if (r) return "none";
    EXPECT_EQ(r.error().code, code);
    EXPECT_EQ(r.error().rank, 7);
    EXPECT_EQ(r.error().scope, Scope::kPeer);
    EXPECT_THAT(r.error().message, HasSubstr("rank 7 (10.0.0.7:4711, channel 4)"));
    return r.error().message;
  }

  Fd peer_;
  std::vector<std::byte> memory_;
  OutLink out_;
  InLink in_[2];
  EndpointCounters counters_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(HostilePeer, CannotSpeakAnotherVersion) {
  FrameHeader h = encode_header(FrameKind::kPut, 2, 1);
  h.version = 9;
  send_header(h);
  EXPECT_THAT(complaint(), HasSubstr("frame of version 9, this rank speaks 1"));
}

TEST_F(HostilePeer, CannotSendAnUnknownKind) {
  FrameHeader h = encode_header(FrameKind::kPut, 2, 1);
  h.kind = 17;
  send_header(h);
  EXPECT_THAT(complaint(), HasSubstr("frame of kind 17"));
}

TEST_F(HostilePeer, CannotSetReservedBits) {
  FrameHeader h = encode_header(FrameKind::kCredit, 1, 1);
  h.reserved = 0x10;
  send_header(h);
  EXPECT_THAT(complaint(), HasSubstr("reserved field"));
}

TEST_F(HostilePeer, CannotPutOnAnUnknownLink) {
  send_put(put_frame(1, 1));  // tag 1 exists, but in the other direction
  EXPECT_THAT(complaint(), HasSubstr("put on link tag 1, which does not exist"));
}

TEST_F(HostilePeer, CannotCreditAnUnknownLink) {
  send_header(encode_header(FrameKind::kCredit, 2, 1));
  EXPECT_THAT(complaint(), HasSubstr("credit for link tag 2, which does not exist"));
}

TEST_F(HostilePeer, CannotSkipAPut) {
  send_put(put_frame(2, 1));
  send_put(put_frame(2, 3));
  EXPECT_THAT(complaint(), HasSubstr("put number 3 on link tag 2, expected 2"));
}

TEST_F(HostilePeer, CannotRepeatAPut) {
  send_put(put_frame(2, 1));
  send_put(put_frame(2, 1));
  EXPECT_THAT(complaint(), HasSubstr("put number 1 on link tag 2, expected 2"));
}

TEST_F(HostilePeer, CannotWriteOutsideTheInbox) {
  const uint64_t huge = UINT64_MAX;
  const std::pair<uint64_t, uint64_t> runs[] = {
      {kInboxBytes, 1}, {0, kInboxBytes + 1}, {1, kInboxBytes}, {huge, 1}, {huge - 3, 8}, {8, huge}, {huge, huge}};
  for (auto [offset, bytes] : runs) {
    for (int run = 0; run < 2; ++run) {
      HostilePeer_CannotWriteOutsideTheInbox_Test fresh;
      PutFrame f = put_frame(2, 1);
      f.runs[run] = {htole64(offset), htole64(bytes)};
      fresh.send_put(f);
      fresh.send_bytes("0123456789", 10);
      EXPECT_THAT(fresh.complaint(),
                  HasSubstr(fmt::format("writes {} bytes at offset {}, the inbox has 256", bytes, offset)));
    }
  }
}

TEST_F(HostilePeer, CannotHaveMorePutsInFlightThanAgreed) {
  for (uint64_t i = 1; i <= kMaxPutsInFlight; ++i) send_put(put_frame(3, i));
  EXPECT_EQ(complaint(), "none");
  send_put(put_frame(3, kMaxPutsInFlight + 1));
  EXPECT_THAT(complaint(), HasSubstr("with 64 puts unreleased, the limit is 64"));
}

TEST_F(HostilePeer, CannotCreditMoreThanWasSent) {
  connection_->put(out_, {}, {});
  ASSERT_TRUE(connection_->send());
  ASSERT_EQ(out_.sent, 1u);
  connection_->put(out_, {}, {});  // posted, not sent
  send_header(encode_header(FrameKind::kCredit, 1, 2));
  EXPECT_THAT(complaint(), HasSubstr("credit of 2 on link tag 1, expected 1 to 1 (puts sent)"));
}

TEST_F(HostilePeer, CannotTakeCreditBack) {
  for (int i = 0; i < 3; ++i) connection_->put(out_, {}, {});
  ASSERT_TRUE(connection_->send());
  send_header(encode_header(FrameKind::kCredit, 1, 2));
  EXPECT_EQ(complaint(), "none");
  EXPECT_EQ(out_.consumed, 2u);
  send_header(encode_header(FrameKind::kCredit, 1, 1));
  EXPECT_THAT(complaint(), HasSubstr("credit of 1 on link tag 1, expected 3 to 3"));
}

TEST_F(HostilePeer, CannotCloseInMidFrameUnnoticed) {
  const PutFrame f = put_frame(2, 1, 0, 100);
  send_bytes(&f, 40);
  EXPECT_EQ(complaint(), "none");
  peer_.reset();
  EXPECT_THAT(complaint(), HasSubstr("closed its connection"));
}

TEST_F(HostilePeer, CannotCloseInMidPayloadUnnoticed) {
  send_put(put_frame(2, 1, 0, 100));
  send_bytes("abc", 3);
  EXPECT_EQ(complaint(), "none");
  EXPECT_EQ(in_[0].arrived, 0u);
  peer_.reset();
  EXPECT_THAT(complaint(), HasSubstr("closed its connection"));
}

TEST_F(HostilePeer, CannotLeaveWithPutsUnconsumed) {
  connection_->put(out_, {}, {});
  ASSERT_TRUE(connection_->send());
  send_header(encode_header(FrameKind::kGoodbye, 0, 0));
  EXPECT_THAT(complaint(twohopInvalidUsage), HasSubstr("closed its connection"));
}

TEST_F(HostilePeer, MayLeaveInGoodOrderAndIsMissedOnlyWhenNeeded) {
  send_header(encode_header(FrameKind::kGoodbye, 0, 0));
  peer_.reset();
  EXPECT_EQ(complaint(), "none");
  EXPECT_TRUE(connection_->peer_left());
  connection_->put(out_, {}, {});
  auto r = connection_->send();
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().rank, 7);
}

TEST_F(HostilePeer, MayCloseWithoutAWordAfterOurGoodbye) {
  connection_->say_goodbye();
  ASSERT_TRUE(connection_->send());
  EXPECT_FALSE(connection_->has_output());
  peer_.reset();  // unread input: on TCP a reset
  EXPECT_EQ(complaint(), "none");
  EXPECT_TRUE(connection_->peer_left());
}

TEST_F(HostilePeer, SendingToAClosedSocketIsAnErrorNotASignal) {
  peer_.reset();
  connection_->put(out_, {}, {});
  auto r = connection_->send();
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().rank, 7);
  EXPECT_EQ(r.error().sys_errno, EPIPE);
}

TEST_F(HostilePeer, GarbageIsAlwaysAnErrorAndNeverACrash) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    HostilePeer_GarbageIsAlwaysAnErrorAndNeverACrash_Test fresh;
    // Valid but for a few bytes: pure noise would fail at the version every time.
    PutFrame frames[4] = {put_frame(2, 1, 5, 128), put_frame(3, 1), put_frame(3, 2), put_frame(2, 2)};
    auto* bytes = reinterpret_cast<unsigned char*>(frames);
    for (int i = 0; i < 3; ++i) bytes[random() % sizeof frames] = static_cast<unsigned char>(random());
    fresh.send_bytes(frames, sizeof frames);
    fresh.peer_.reset();
    Result<bool> r = false;
    for (int i = 0; i < 10 && r && !fresh.connection_->peer_left(); ++i) r = fresh.connection_->receive();
    EXPECT_TRUE(!r || fresh.connection_->peer_left());
  }
}

TEST_F(HostilePeer, HonestFramesMayBeCutAnywhere) {
  std::vector<std::byte> stream;
  auto append = [&](const void* p, size_t n) {
    stream.insert(stream.end(), static_cast<const std::byte*>(p), static_cast<const std::byte*>(p) + n);
  };
  std::vector<unsigned char> payload(kInboxBytes);
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<unsigned char>(i * 7 + 1);
  PutFrame wrapped = put_frame(2, 1, 200, 56);
  wrapped.runs[1] = {htole64(10), htole64(100)};
  wrapped.call = htole64(6);
  wrapped.signature = htole64(0xfeed);
  append(&wrapped, sizeof wrapped);
  append(payload.data(), 156);
  const PutFrame empty = put_frame(3, 1), full = put_frame(3, 2, 0, kInboxBytes);
  append(&empty, sizeof empty);
  append(&full, sizeof full);
  append(payload.data(), kInboxBytes);

  for (size_t step = 1; step < stream.size(); step += step < 70 ? 1 : 37) {
    HostilePeer_HonestFramesMayBeCutAnywhere_Test fresh;
    for (size_t at = 0; at < stream.size(); at += step) {
      fresh.send_bytes(stream.data() + at, std::min(step, stream.size() - at));
      ASSERT_EQ(fresh.complaint(), "none");
    }
    EXPECT_EQ(fresh.in_[0].arrived, 1u);
    EXPECT_EQ(fresh.in_[1].arrived, 2u);
    EXPECT_EQ(fresh.in_[0].tags[2].call, 6u);
    EXPECT_EQ(fresh.in_[0].tags[2].signature, 0xfeedu);
    EXPECT_EQ(std::memcmp(fresh.in_[0].inbox.data() + 200, payload.data(), 56), 0);
    EXPECT_EQ(std::memcmp(fresh.in_[0].inbox.data() + 10, payload.data() + 56, 100), 0);
    EXPECT_EQ(std::memcmp(fresh.in_[1].inbox.data(), payload.data(), kInboxBytes), 0);
    EXPECT_EQ(fresh.counters_.bytes_received, stream.size());
  }
}

}  // namespace
}  // namespace twohop::tcp
