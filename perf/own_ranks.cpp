// See own_ranks.hpp. The same variables as scripts/launch sets.
#include "own_ranks.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

namespace twohop::perf {
namespace {

/// A port that was free a moment ago.
int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

std::string secret() {
  unsigned char bytes[16] = {};
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) std::abort();
  std::string text;
  for (unsigned char b : bytes) text += fmt::format("{:02x}", b);
  return text;
}

}  // namespace

bool under_launcher() {
  return std::getenv("RANK") || std::getenv("WORLD_SIZE");
}

int start_own_ranks(int n) {
  ::setenv("WORLD_SIZE", std::to_string(n).c_str(), 1);
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", "1", 1);  // not used: the next one stands in for it
  ::setenv("TWOHOP_PORT", std::to_string(free_port()).c_str(), 1);
  ::setenv("TWOHOP_JOB_SECRET", secret().c_str(), 0);
  const pid_t parent = ::getpid();
  std::vector<pid_t> children;
  for (int rank = 0; rank < n; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) std::_Exit(3);
      ::setenv("RANK", std::to_string(rank).c_str(), 1);
      ::setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
      return -1;
    }
    if (child > 0) children.push_back(child);
  }
  int code = children.size() == static_cast<size_t>(n) ? 0 : 3;
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    const int its = WIFEXITED(status) ? WEXITSTATUS(status) : 3;
    if (code == 0) code = its;
  }
  return code;
}

}  // namespace twohop::perf
