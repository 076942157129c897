// Memory that several processes of one host map: an anonymous memfd, so that a killed process leaves nothing behind.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.hpp"
#include "base/socket.hpp"

namespace twohop {

/// A mapped memfd. Move-only; unmaps and closes itself. Zero-filled when created; pages appear at first touch.
class SharedMemory {
 public:
  SharedMemory() = default;
  /// `bytes` is rounded up to whole pages. The error says how much was asked for and what limits apply.
  static Result<SharedMemory> create(size_t bytes);
  /// Maps a peer's segment; takes the fd. An error when it is smaller than `bytes` or not a sealed memfd.
  static Result<SharedMemory> map(Fd fd, size_t bytes);
  SharedMemory(SharedMemory&& o) noexcept;
  SharedMemory& operator=(SharedMemory&& o) noexcept;
  ~SharedMemory();

  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(base_), size_}; }
  int fd() const { return fd_.get(); }

 private:
  void* base_ = nullptr;
  size_t size_ = 0;
  Fd fd_;
};

}  // namespace twohop
