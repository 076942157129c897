// See helper_process.hpp.
#include "unit/bootstrap/helper_process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "unit/bootstrap/ranks.hpp"

extern char** environ;

namespace twohop {
namespace {

constexpr const char* kArguments = "BOOTSTRAP_TEST_HELPER";  // "what rank nranks id-in-hex"
constexpr int kIn = 0, kOut = 3;                             // stdout is gtest's

std::string hex(const twohopUniqueId& id) {
  std::string out;
  for (const char c : id.internal) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

twohopUniqueId from_hex(const std::string& text) {
  twohopUniqueId id;
  for (size_t i = 0; i < sizeof id.internal; i++)
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

void say_joined() {
  ASSERT_EQ(write(kOut, "j", 1), 1);
}

void wait_for_parent_to_end() {
  char c;
  while (read(kIn, &c, 1) > 0) {
  }
}

void stay_with_a_child() {
  if (fork() == 0) {
    wait_for_parent_to_end();
    _exit(0);
  }
}

void play(const std::string& what, int rank, int nranks, const twohopUniqueId& id) {
  if (what == "root") {
    ASSERT_TRUE(make_unique_id(loopback_options(600)));
    return;
  }
  auto c = Control::join(id, rank, nranks, in(std::chrono::seconds(30)));
  ASSERT_TRUE(c) << c.error().message;
  Failures f;
  (*c)->watch(f.handler());
  if (what == "fork") stay_with_a_child();
  say_joined();
  if (what != "goodbye") wait_for_parent_to_end();
}

TEST(Helper, DISABLED_PlaysOneRank) {
  const char* arguments = std::getenv(kArguments);
  ASSERT_NE(arguments, nullptr) << "only for HelperProcess";
  char what[16], id[2 * sizeof(twohopUniqueId) + 1];
  int rank, nranks;
  ASSERT_EQ(std::sscanf(arguments, "%15s %d %d %256s", what, &rank, &nranks, id), 4);
  play(what, rank, nranks, from_hex(id));
}

}  // namespace

HelperProcess::HelperProcess(const twohopUniqueId& id, int rank, int nranks, const std::string& what) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return;
  const Fd child_in(in[0]), child_out(out[1]);
  to_child_ = Fd(in[1]);
  from_child_ = Fd(out[0]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child_in.get(), kIn);
  posix_spawn_file_actions_adddup2(&actions, child_out.get(), kOut);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  std::string setting = fmt::format("{}={} {} {} {}", kArguments, what, rank, nranks, hex(id));
  std::vector<char*> env;
  for (char** e = environ; *e != nullptr; e++) env.push_back(*e);
  env.push_back(setting.data());
  env.push_back(nullptr);
  std::string program = "/proc/self/exe", filter = "--gtest_filter=Helper.DISABLED_PlaysOneRank",
              also = "--gtest_also_run_disabled_tests";
  char* argv[] = {program.data(), filter.data(), also.data(), nullptr};
  EXPECT_EQ(posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, env.data()), 0);
  posix_spawn_file_actions_destroy(&actions);
}

HelperProcess::~HelperProcess() {
  if (running_) kill();
}

bool HelperProcess::wait_until_joined() {
  char c;
  return wait_for_fd(from_child_.get(), POLLIN, in(std::chrono::seconds(30))) && read(from_child_.get(), &c, 1) == 1;
}

void HelperProcess::kill() {
  ::kill(pid_, SIGKILL);
  wait_for_exit();
}

int HelperProcess::wait_for_exit() {
  int status = 0;
  waitpid(pid_, &status, 0);
  const bool exited = WIFEXITED(status);
  running_ = false;
  return exited ? WEXITSTATUS(status) : -1;
}

}  // namespace twohop
