// How do numbers, texts and addresses travel in the bootstrap's messages? Little endian, bounded, checked on reading.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/handshake.hpp"
#include "base/socket.hpp"

namespace twohop {

/// The first byte of every bootstrap message; ranks of different versions refuse each other by name.
constexpr uint8_t kBootstrapVersion = 1;
constexpr size_t kMaxIdentityBytes = 96;  // "host:pid"
constexpr size_t kMaxMessageBytes = 1024;
constexpr int kMaxRanks = 1 << 20;

class Writer {
 public:
  void u8(uint8_t v) { number(v, 1); }
  void u16(uint16_t v) { number(v, 2); }
  void u32(uint32_t v) { number(v, 4); }
  void i32(int32_t v) { number(static_cast<uint32_t>(v), 4); }
  void raw(std::span<const std::byte> data);
  /// Length and bytes; cut to max_bytes.
  void text(std::string_view text, size_t max_bytes);
  void address(const SocketAddress& a);
  const Bytes& bytes() const { return out_; }
  Bytes take() { return std::move(out_); }

 private:
  void number(uint64_t value, int bytes);
  Bytes out_;
};

/// After an overrun or a value out of range everything reads as 0 or empty, and ok() is false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> data) : left_(data) {}
  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  int32_t i32() { return static_cast<int32_t>(u32()); }
  std::span<const std::byte> raw(size_t bytes);
  /// Control characters come out as '?': the text goes to logs and terminals.
  std::string text(size_t max_bytes);
  SocketAddress address();
  bool empty() const { return left_.empty(); }
  bool ok() const { return ok_; }
  /// Everything was read, and nothing beyond.
  bool complete() const { return ok_ && left_.empty(); }

 private:
  uint64_t number(size_t bytes);
  std::span<const std::byte> left_;
  bool ok_ = true;
};

/// "host:pid" of this process, for messages on other ranks.
std::string process_identity();
/// "0, 4-7, 9"; at most a dozen items, then "and N more".
std::string rank_list(const std::vector<int>& sorted_ranks);

}  // namespace twohop
