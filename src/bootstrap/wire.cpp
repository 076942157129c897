// See wire.hpp.
#include "bootstrap/wire.hpp"

#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace twohop {

// Not in the header: inlined, it gives a false alarm of g++ 12 (stringop-overflow).
void Writer::raw(std::span<const std::byte> data) {
  out_.insert(out_.end(), data.begin(), data.end());
}

void Writer::number(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) out_.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void Writer::text(std::string_view text, size_t max_bytes) {
  text = text.substr(0, max_bytes);
  u16(static_cast<uint16_t>(text.size()));
  raw(std::as_bytes(std::span(text)));
}

/// Family (4 or 6), port, scope, 16 bytes of address.
void Writer::address(const SocketAddress& a) {
  std::byte octets[16] = {};
  uint32_t scope = 0;
  const bool v6 = a.storage.ss_family == AF_INET6;
  if (v6) {
    const auto* s = reinterpret_cast<const sockaddr_in6*>(&a.storage);
    std::memcpy(octets, &s->sin6_addr, 16);
    scope = s->sin6_scope_id;
  } else {
    std::memcpy(octets, &reinterpret_cast<const sockaddr_in*>(&a.storage)->sin_addr, 4);
  }
  u8(v6 ? 6 : 4);
  u16(static_cast<uint16_t>(a.port()));
  u32(scope);
  raw(octets);
}

std::span<const std::byte> Reader::raw(size_t bytes) {
  if (!ok_ || bytes > left_.size()) {
    ok_ = false;
    left_ = {};
    return {};
  }
  const auto head = left_.first(bytes);
  left_ = left_.subspan(bytes);
  return head;
}

uint64_t Reader::number(size_t bytes) {
  uint64_t value = 0;
  const auto data = raw(bytes);
  for (size_t i = 0; i < data.size(); i++) value |= static_cast<uint64_t>(data[i]) << (8 * i);
  return value;
}

std::string Reader::text(size_t max_bytes) {
  const size_t bytes = u16();
  if (bytes > max_bytes) ok_ = false;
  const auto data = raw(bytes);
  std::string out(reinterpret_cast<const char*>(data.data()), data.size());
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return out;
}

SocketAddress Reader::address() {
  const uint8_t family = u8();
  const uint16_t port = u16();
  const uint32_t scope = u32();
  const auto octets = raw(16);
  SocketAddress a;
  if ((family != 4 && family != 6) || octets.size() != 16) {
    ok_ = false;
    return a;
  }
  if (family == 6) {
    auto* s = reinterpret_cast<sockaddr_in6*>(&a.storage);
    s->sin6_family = AF_INET6;
    s->sin6_scope_id = scope;
    std::memcpy(&s->sin6_addr, octets.data(), 16);
    a.length = sizeof *s;
  } else {
    auto* s = reinterpret_cast<sockaddr_in*>(&a.storage);
    s->sin_family = AF_INET;
    std::memcpy(&s->sin_addr, octets.data(), 4);
    a.length = sizeof *s;
  }
  a.set_port(port);
  return a;
}

std::string process_identity() {
  char host[65] = {};
  if (gethostname(host, sizeof host - 1) != 0) std::strcpy(host, "?");
  return fmt::format("{}:{}", host, getpid());
}

std::string rank_list(const std::vector<int>& ranks) {
  constexpr int kMaxItems = 12;
  std::string out;
  int items = 0;
  for (size_t i = 0; i < ranks.size(); items++) {
    if (items == kMaxItems) return out + fmt::format(" and {} more", ranks.size() - i);
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) last++;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", ranks[i]);
    if (last > i) out += fmt::format("{}{}", last == i + 1 ? ", " : "-", ranks[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace twohop
