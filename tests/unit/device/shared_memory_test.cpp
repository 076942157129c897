#include "device/shared_memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace twohop {
namespace {

Fd duplicate(int fd) {
  return Fd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

TEST(SharedMemory, IsZeroFilledWholePagesAndSharedByItsMappings) {
  auto mine = SharedMemory::create(5000);
  ASSERT_TRUE(mine) << mine.error().message;
  EXPECT_EQ(mine->bytes().size() % 4096, 0u);
  EXPECT_GE(mine->bytes().size(), 5000u);
  for (std::byte b : mine->bytes()) ASSERT_EQ(b, std::byte{0});
  auto peers = SharedMemory::map(duplicate(mine->fd()), 5000);
  ASSERT_TRUE(peers) << peers.error().message;
  mine->bytes()[4999] = std::byte{42};
  EXPECT_EQ(peers->bytes()[4999], std::byte{42});
}

TEST(SharedMemory, IsMappedOnceInAProcessUntilItsLastHolderGoes) {
  auto first = SharedMemory::create(4096);
  ASSERT_TRUE(first);
  auto second = SharedMemory::map(duplicate(first->fd()), 4096);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->bytes().data(), first->bytes().data());
  auto other = SharedMemory::create(4096);
  ASSERT_TRUE(other);
  EXPECT_NE(other->bytes().data(), first->bytes().data());
  *first = SharedMemory();
  second->bytes()[0] = std::byte{3};
  EXPECT_EQ(second->bytes()[0], std::byte{3});
}

TEST(SharedMemory, IsSeenByAnotherProcessAndOutlivesItsMaker) {
  auto memory = SharedMemory::create(1);
  ASSERT_TRUE(memory);
  const pid_t child = fork();
  if (child == 0) {
    memory->bytes()[0] = std::byte{7};
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(memory->bytes()[0], std::byte{7});
  Fd fd = duplicate(memory->fd());
  *memory = SharedMemory();
  auto again = SharedMemory::map(std::move(fd), 1);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->bytes()[0], std::byte{7});
}

TEST(SharedMemory, CannotBeResizedByAPeer) {
  auto memory = SharedMemory::create(8192);
  ASSERT_TRUE(memory);
  EXPECT_NE(ftruncate(memory->fd(), 0), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(ftruncate(memory->fd(), 1 << 20), 0);
  EXPECT_NE(fcntl(memory->fd(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(SharedMemory, RefusesASegmentThatIsTooSmall) {
  auto memory = SharedMemory::create(4096);
  ASSERT_TRUE(memory);
  auto peers = SharedMemory::map(duplicate(memory->fd()), memory->bytes().size() + 1);
  ASSERT_FALSE(peers);
  EXPECT_EQ(peers.error().code, twohopRemoteError);
  EXPECT_NE(peers.error().message.find("TWOHOP_BUFFSIZE"), std::string::npos) << peers.error().message;
}

TEST(SharedMemory, RefusesAnythingButASealedMemfd) {
  Fd unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  EXPECT_FALSE(SharedMemory::map(std::move(unsealed), 4096));

  char path[] = "/tmp/twohop_test_XXXXXX";
  Fd file(mkstemp(path));
  unlink(path);
  ASSERT_EQ(ftruncate(file.get(), 4096), 0);
  EXPECT_FALSE(SharedMemory::map(std::move(file), 4096));

  EXPECT_FALSE(SharedMemory::map(Fd(), 4096));
  EXPECT_FALSE(SharedMemory::map(Fd(open("/dev/zero", O_RDWR | O_CLOEXEC)), 4096));
}

TEST(SharedMemory, SaysWhichLimitsApplyWhenItCannotBeMade) {
  auto memory = SharedMemory::create(size_t(1) << 60);
  ASSERT_FALSE(memory);
  EXPECT_NE(memory.error().message.find("cgroup"), std::string::npos) << memory.error().message;
  EXPECT_FALSE(SharedMemory::create(~size_t(0)));
}

TEST(SharedMemory, OfNoBytesIsOnePage) {
  auto memory = SharedMemory::create(0);
  ASSERT_TRUE(memory);
  EXPECT_GE(memory->bytes().size(), 4096u);
}

TEST(SharedMemory, MovesWithoutLeakingOrUnmappingTwice) {
  auto a = SharedMemory::create(4096);
  auto b = SharedMemory::create(8192);
  ASSERT_TRUE(a);
  ASSERT_TRUE(b);
  std::byte* base = a->bytes().data();
  SharedMemory moved = std::move(*a);
  EXPECT_EQ(moved.bytes().data(), base);
  EXPECT_EQ(a->bytes().size(), 0u);
  const int old_fd = b->fd();
  *b = std::move(moved);
  EXPECT_EQ(b->bytes().data(), base);
  EXPECT_EQ(fcntl(old_fd, F_GETFD), -1) << "the old segment's fd is still open";
  b->bytes()[0] = std::byte{1};
}

}  // namespace
}  // namespace twohop
