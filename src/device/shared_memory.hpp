// Memory that several processes of one host map: an anonymous memfd, so that a killed process leaves nothing behind.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "base/socket.hpp"

namespace twohop {

/// A mapped memfd. Move-only; a segment is mapped once in a process, however many SharedMemory objects hold it.
/// Zero-filled when created; pages appear at first touch.
class SharedMemory {
 public:
  struct Mapping;

  SharedMemory() = default;
  /// `bytes` is rounded up to whole pages. The error says how much was asked for and what limits apply.
  static Result<SharedMemory> create(size_t bytes);
  /// Maps a peer's segment; takes the fd. An error when it is smaller than `bytes` or not a sealed memfd.
  static Result<SharedMemory> map(Fd fd, size_t bytes);
  SharedMemory(SharedMemory&&) = default;
  SharedMemory& operator=(SharedMemory&&) = default;

  std::span<std::byte> bytes() const;
  int fd() const { return fd_.get(); }

 private:
  std::shared_ptr<Mapping> mapping_;
  Fd fd_;
};

}  // namespace twohop
