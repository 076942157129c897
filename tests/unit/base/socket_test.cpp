// Addresses, interface choice, and transfers with deadlines.
#include "base/socket.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace twohop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

Deadline in(milliseconds d) {
  return std::chrono::steady_clock::now() + d;
}

struct Pair {
  Fd a, b;
};

Pair connected_pair() {
  auto listener = listen_on(*resolve("127.0.0.1", 0));
  auto address = local_address(listener->get());
  Pair p;
  p.a = std::move(*connect_to(*address, in(seconds(5))));
  EXPECT_TRUE(wait_for_fd(listener->get(), POLLIN, in(seconds(5))));
  p.b = Fd(accept(listener->get(), nullptr, nullptr));
  return p;
}

TEST(SocketAddress, PrintsAndParsesBothFamilies) {
  EXPECT_EQ(resolve("10.0.0.1", 4711)->to_string(), "10.0.0.1:4711");
  EXPECT_EQ(resolve("::1", 5)->to_string(), "[::1]:5");
  EXPECT_EQ(resolve("10.0.0.1", 65535)->port(), 65535);
}

TEST(SocketAddress, KnowsLoopback) {
  for (const char* loop : {"127.0.0.1", "127.0.1.1", "::1", "::ffff:127.0.0.1", "localhost"})
    EXPECT_TRUE(resolve(loop, 1)->is_loopback()) << loop;
  for (const char* other : {"10.0.0.1", "2001:db8::1", "0.0.0.0", "::ffff:10.0.0.1"})
    EXPECT_FALSE(resolve(other, 1)->is_loopback()) << other;
}

TEST(Resolve, NamesWhatItCannotResolve) {
  EXPECT_THAT(resolve("no-such-host.invalid", 1).error().message, HasSubstr("no-such-host.invalid"));
  EXPECT_EQ(resolve("", 1).error().code, twohopInvalidArgument);
  EXPECT_THAT(resolve("127.0.0.1", 65536).error().message, HasSubstr("65536"));
  EXPECT_FALSE(resolve("127.0.0.1", -1));
}

TEST(ChooseInterface, FollowsPrefixExactAndExclusion) {
  EXPECT_TRUE(choose_interface("lo")->address.is_loopback());
  EXPECT_TRUE(choose_interface("=lo")->address.is_loopback());
  EXPECT_TRUE(choose_interface("nothing,l")->address.is_loopback());
  EXPECT_FALSE(choose_interface("=l"));
  auto not_loopback = choose_interface("^=lo");
  EXPECT_TRUE(!not_loopback || !not_loopback->address.is_loopback());
  EXPECT_EQ(choose_interface("lo")->address.port(), 0);
  EXPECT_EQ(choose_interface("nothing,l")->name, "lo");
}

TEST(ChooseInterface, SaysWhyEachInterfaceWasPassedOver) {
  auto none = choose_interface("=nosuchif0");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, twohopInvalidArgument);
  EXPECT_THAT(none.error().message, HasSubstr("TWOHOP_SOCKET_IFNAME==nosuchif0"));
  EXPECT_THAT(none.error().message, HasSubstr("lo is not selected"));
}

TEST(ChooseInterface, AlwaysFindsOneByDefault) {
  EXPECT_TRUE(choose_interface(""));
}

TEST(Socket, TransfersWholeBuffersLargerThanTheSocketHolds) {
  Pair p = connected_pair();
  std::vector<std::byte> sent(8 << 20, std::byte{7}), got(sent.size());
  std::thread sender([&] { EXPECT_TRUE(send_all(p.a.get(), sent, in(seconds(20)))); });
  EXPECT_TRUE(receive_all(p.b.get(), got, in(seconds(20))));
  sender.join();
  EXPECT_EQ(sent, got);
}

TEST(Socket, ReceivingStopsAtTheDeadline) {
  Pair p = connected_pair();
  std::byte b[1];
  EXPECT_EQ(receive_all(p.a.get(), b, in(milliseconds(30))).error().code, twohopTimeout);
}

TEST(Socket, SendingToAPeerThatNeverReadsStopsAtTheDeadline) {
  Pair p = connected_pair();
  std::vector<std::byte> data(64 << 20);
  EXPECT_EQ(send_all(p.a.get(), data, in(milliseconds(50))).error().code, twohopTimeout);
}

TEST(Socket, AClosedPeerIsARemoteError) {
  Pair p = connected_pair();
  p.b.reset();
  std::byte b[1];
  EXPECT_EQ(receive_all(p.a.get(), b, in(seconds(5))).error().code, twohopRemoteError);
  std::vector<std::byte> data(64 << 20);
  EXPECT_EQ(send_all(p.a.get(), data, in(seconds(5))).error().code, twohopRemoteError);
}

TEST(Socket, ConnectingRetriesUntilSomebodyListens) {
  SocketAddress address;
  {
    auto placeholder = listen_on(*resolve("127.0.0.1", 0));
    address = *local_address(placeholder->get());
  }
  Result<Fd> listener = make_error(twohopInternalError, "not yet");
  std::thread late([&] {
    EXPECT_FALSE(connect_to(address, in(milliseconds(40))));  // refused for that long
    listener = listen_on(address);
  });
  EXPECT_TRUE(connect_to(address, in(seconds(10))));
  late.join();
  EXPECT_TRUE(listener);
}

TEST(Socket, ARefusedConnectionNamesTheAddress) {
  SocketAddress address;
  {
    auto placeholder = listen_on(*resolve("127.0.0.1", 0));
    address = *local_address(placeholder->get());
  }
  auto refused = connect_to(address, in(milliseconds(30)));
  EXPECT_EQ(refused.error().code, twohopTimeout);
  EXPECT_THAT(refused.error().message, HasSubstr(address.to_string()));
}

TEST(Socket, ListeningTwiceOnAPortNamesTheAddress) {
  auto first = listen_on(*resolve("127.0.0.1", 0));
  auto address = *local_address(first->get());
  EXPECT_THAT(listen_on(address).error().message, HasSubstr(address.to_string()));
}

TEST(Socket, APortThatAConnectionOfOursWasGivenCanBeListenedOn) {
  bool listening = false;
  // Somebody else's closed connection may hold the same port: not all of twenty.
  for (int i = 0; i < 20 && !listening; ++i) {
    auto listener = listen_on(*resolve("127.0.0.1", 0));
    ASSERT_TRUE(listener) << listener.error().message;
    auto client = connect_to(*local_address(listener->get()), in(seconds(5)));
    ASSERT_TRUE(client) << client.error().message;
    listening = listen_on(*local_address(client->get())).has_value();
  }
  EXPECT_TRUE(listening);
}

TEST(Socket, IsTunedForSmallMessagesAndLostHosts) {
  Pair p = connected_pair();
  int nodelay = 0, keepalive = 0, user_timeout = -1;
  socklen_t n = sizeof(int);
  getsockopt(p.a.get(), IPPROTO_TCP, TCP_NODELAY, &nodelay, &n);
  getsockopt(p.a.get(), SOL_SOCKET, SO_KEEPALIVE, &keepalive, &n);
  getsockopt(p.a.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, &n);
  EXPECT_NE(nodelay, 0);
  EXPECT_NE(keepalive, 0);
  EXPECT_EQ(user_timeout, 0);
}

TEST(Fd, MovesAndClosesOnce) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Fd read_end(ends[0]);
  {
    Fd write_end(ends[1]);
    Fd moved = std::move(write_end);
    EXPECT_EQ(write_end.get(), -1);  // NOLINT: the moved-from state is what is tested
    EXPECT_TRUE(moved);
  }
  char c;
  EXPECT_EQ(read(read_end.get(), &c, 1), 0);
}

}  // namespace
}  // namespace twohop
