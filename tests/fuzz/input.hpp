// How does a target take a fuzzer's bytes apart, and give them to code that reads from a socket?
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "base/socket.hpp"

namespace twohop::fuzz {

[[noreturn]] inline void fail(const char* what, const std::string& detail = "") {
  std::fprintf(stderr, "%s: %s\n", what, detail.c_str());
  std::abort();
}

/// Numbers and texts off the front of the input; an input that is used up gives zeros.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : left_(data, size) {}
  uint8_t u8() {
    if (left_.empty()) return 0;
    const uint8_t v = left_.front();
    left_ = left_.subspan(1);
    return v;
  }
  size_t below(size_t limit) { return u8() % limit; }
  bool empty() const { return left_.empty(); }
  size_t size() const { return left_.size(); }
  std::span<const std::byte> bytes(size_t most) {
    const auto taken = left_.first(std::min(most, left_.size()));
    left_ = left_.subspan(taken.size());
    return std::as_bytes(taken);
  }
  std::span<const std::byte> rest() { return bytes(left_.size()); }
  std::string_view text() {
    const auto all = rest();
    return {reinterpret_cast<const char*>(all.data()), all.size()};
  }

 private:
  std::span<const uint8_t> left_;
};

/// Two ends of a stream: the code under test has `ours`, the fuzzer writes into `theirs`.
struct Stream {
  Fd ours, theirs;

  Stream() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
    ours = Fd(ends[0]);
    theirs = Fd(ends[1]);
  }
  /// What fits: a full buffer is the reader's fault or the input's, either is fine.
  void write(std::span<const std::byte> data) const {
    (void)!::send(theirs.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void end() const { ::shutdown(theirs.get(), SHUT_WR); }
  void discard() const {
    char sink[4096];
    while (::recv(theirs.get(), sink, sizeof sink, MSG_DONTWAIT) > 0) {
    }
  }
};

/// Has passed: whatever is not there already does not come.
inline Deadline at_once() {
  return std::chrono::steady_clock::now();
}

}  // namespace twohop::fuzz

/// What libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
