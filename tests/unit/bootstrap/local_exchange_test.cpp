// Descriptors get to every rank of the host, and to nobody else.
#include "bootstrap/local_exchange.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "bootstrap/fd_transfer.hpp"
#include "unit/bootstrap/ranks.hpp"

namespace twohop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

Fd memfd_with(int value) {
  Fd fd(memfd_create("twohop-test", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), &value, sizeof value), static_cast<ssize_t>(sizeof value));
  return fd;
}

int value_in(const Fd& fd) {
  int value = -1;
  EXPECT_EQ(pread(fd.get(), &value, sizeof value, 0), static_cast<ssize_t>(sizeof value));
  return value;
}

/// Descriptors of memfd_with() that are open in this process.
size_t open_memfds() {
  size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    n += std::filesystem::read_symlink(entry, gone).string().starts_with("/memfd:twohop-test");
  }
  return n;
}

struct Locals {
  std::vector<LocalExchange> exchanges;
  std::vector<LocalExchange::Candidate> all;

  explicit Locals(int n) {
    for (int r = 0; r < n; r++) {
      exchanges.push_back(std::move(*LocalExchange::create()));
      all.push_back({r, exchanges.back().name()});
    }
  }
  std::vector<LocalExchange::Candidate> others(int rank) const {
    auto o = all;
    o.erase(o.begin() + rank);
    return o;
  }
};

class LocalExchangeSizes : public testing::TestWithParam<int> {};

/// Longer than a listener's queue: whoever tries whether the highest rank can be reached must leave nothing there.
TEST(LocalExchange, GoesOnForAsLongAsACommunicatorLives) {
  Locals locals(2);
  const Secret secret = random_secret();
  run_ranks(2, [&](int r) {
    for (int n = 0; n < 1100; ++n) {
      auto peers = locals.exchanges[r].exchange(r, locals.others(r), {}, secret, in(seconds(30)));
      ASSERT_TRUE(peers) << peers.error().message;
      ASSERT_EQ((*peers)[0].failure, "") << "exchange " << n;
    }
  });
}

TEST_P(LocalExchangeSizes, EveryRankGetsEveryOthersDescriptors) {
  const int n = GetParam();
  Locals locals(n);
  const Secret secret = random_secret();
  run_ranks(n, [&](int r) {
    const Fd a = memfd_with(r), b = memfd_with(1000 + r);
    const int fds[] = {a.get(), b.get()};
    auto peers = locals.exchanges[r].exchange(r, locals.others(r), fds, secret, in(seconds(30)));
    ASSERT_TRUE(peers);
    ASSERT_EQ(peers->size(), static_cast<size_t>(n - 1));
    for (const LocalPeer& p : *peers) {
      ASSERT_EQ(p.fds.size(), 2u) << "rank " << r << " from " << p.rank << ": " << p.failure;
      EXPECT_EQ(value_in(p.fds[0]), p.rank);
      EXPECT_EQ(value_in(p.fds[1]), 1000 + p.rank);
      EXPECT_EQ(fcntl(p.fds[0].get(), F_GETFD), FD_CLOEXEC);
    }
  });
  EXPECT_EQ(open_memfds(), 0u);
}
INSTANTIATE_TEST_SUITE_P(Ranks, LocalExchangeSizes, testing::Values(1, 2, 3, 8, 20));

TEST(LocalExchange, ReportsOneUnreachableCandidateAndServesTheOthers) {
  Locals locals(3);
  const Secret secret = random_secret();
  locals.all[1].name = "twohop-nobody-listens-here";
  const auto start = std::chrono::steady_clock::now();
  run_ranks(3, [&](int r) {
    if (r == 1) return;
    const Fd mine = memfd_with(r);
    const int fds[] = {mine.get()};
    auto peers = locals.exchanges[r].exchange(r, locals.others(r), fds, secret, in(seconds(30)));
    ASSERT_TRUE(peers);
    for (const LocalPeer& p : *peers) {
      EXPECT_EQ(p.fds.empty(), p.rank == 1);
      EXPECT_THAT(p.failure, HasSubstr(p.rank == 1 ? "does not exist here" : ""));
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(2)) << "unreachable is known at once, on both sides";
}

TEST(LocalExchange, ASilentCandidateFailsAfterAFewSeconds) {
  Locals locals(3);  // rank 1 listens, but never takes part
  const Secret secret = random_secret();
  run_ranks(3, [&](int r) {
    if (r == 1) return;
    const Fd mine = memfd_with(r);
    const int fds[] = {mine.get()};
    auto peers = locals.exchanges[r].exchange(r, locals.others(r), fds, secret, in(milliseconds(700)));
    ASSERT_TRUE(peers);
    for (const LocalPeer& p : *peers) EXPECT_EQ(p.failure.empty(), p.rank != 1) << p.failure;
  });
}

TEST(LocalExchange, AStrangerWithoutTheSecretGetsNothing) {
  Locals locals(2);
  const Secret secret = random_secret();
  run_ranks(3, [&](int r) {
    const Fd mine = memfd_with(r);
    const int fds[] = {mine.get()};
    if (r < 2) {
      auto peers = locals.exchanges[r].exchange(r, locals.others(r), fds, secret, in(seconds(30)));
      EXPECT_EQ(peers->at(0).failure, "");
    } else {
      auto stranger = LocalExchange::create();
      auto peers = stranger->exchange(9, locals.all, fds, random_secret(), in(milliseconds(500)));
      for (const LocalPeer& p : *peers) EXPECT_TRUE(p.fds.empty()) << p.rank;
    }
  });
}

TEST(FdTransfer, RefusesForeignMessagesAndClosesWhatCameAlong) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const Fd a(pair[0]), b(pair[1]);
  ASSERT_TRUE(check_same_user(a.get()));
  auto nothing = receive_fds(b.get());
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(*nothing);
  ASSERT_TRUE(send_all(a.get(), bytes_of("12345678"), in(seconds(1))));
  EXPECT_FALSE(receive_fds(b.get()));
  const Fd one = memfd_with(1);
  const int fds[] = {one.get()};
  ASSERT_TRUE(send_fds(a.get(), fds));
  auto got = receive_fds(b.get());
  ASSERT_TRUE(got && *got);
  EXPECT_EQ((*got)->size(), 1u);
  ASSERT_TRUE(send_fds(a.get(), {}));
  EXPECT_TRUE((*receive_fds(b.get()))->empty());
}

TEST(HostIdentity, IsStableAndTellsNamespaces) {
  const std::string id = host_identity("");
  EXPECT_EQ(id, host_identity(""));
  for (const char* kind : {"pid:", "ipc:", "net:", "user:"}) EXPECT_THAT(id, HasSubstr(kind));
  EXPECT_EQ(host_identity("node-a"), "node-a");
}

}  // namespace
}  // namespace twohop
