// See verbs_rail_messages.hpp. Little-endian, field after field.
#include "transport/verbs/verbs_rail_messages.hpp"

#include <algorithm>
#include <cstring>

namespace twohop::verbs {
namespace {

constexpr size_t kMaxCauseBytes = 2048;

class Writer {
 public:
  template <class T>
  Writer& put(T value) {
    for (size_t i = 0; i < sizeof value; ++i) bytes_.push_back(static_cast<std::byte>(value >> 8 * i));
    return *this;
  }
  Writer& put(const PathEpoch& e) { return put(e.path).put(e.epoch); }
  Writer& put(const std::string& text) {
    const auto count = static_cast<uint32_t>(std::min(text.size(), kMaxCauseBytes));
    put(count);
    for (uint32_t i = 0; i < count; ++i) bytes_.push_back(static_cast<std::byte>(text[i]));
    return *this;
  }
  Payload take() { return std::move(bytes_); }

 private:
  Payload bytes_;
};

/// Reads until something is missing; then ok() is false and every value 0.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    if (bytes_.size() < sizeof(T)) {
      failed_ = true;
      return 0;
    }
    T value = 0;
    for (size_t i = 0; i < sizeof value; ++i) value |= static_cast<T>(static_cast<T>(bytes_[i]) << 8 * i);
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  PathEpoch epoch() {
    const auto path = get<uint32_t>();
    return {path, get<uint32_t>()};
  }
  std::string text() {
    const uint32_t count = this->count(1);
    std::string s(reinterpret_cast<const char*>(bytes_.data()), count);
    bytes_ = bytes_.subspan(count);
    // It ends in somebody's log.
    std::replace_if(
        s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
    return s;
  }
  /// How many elements of at least so many bytes follow: never more than there are bytes for.
  uint32_t count(size_t element_bytes) {
    const auto n = get<uint32_t>();
    if (n <= bytes_.size() / element_bytes) return n;
    failed_ = true;
    return 0;
  }
  bool ok() const { return !failed_ && bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  bool failed_ = false;
};

template <class T>
std::optional<T> if_ok(const Reader& r, T&& value) {
  if (!r.ok()) return std::nullopt;
  return std::forward<T>(value);
}

}  // namespace

Payload encode(const PathEpoch& m) {
  return Writer().put(m).take();
}

Payload encode(const EndMessage& m) {
  return Writer().put(static_cast<uint32_t>(m.code)).put(m.cause).take();
}

Payload encode(const DownMessage& m) {
  return Writer().put(m.at).put(uint8_t{m.planned}).put(m.cause).take();
}

Payload encode(const HeldMessage& m) {
  Writer w;
  w.put(m.at).put(m.usable);
  w.put(static_cast<uint32_t>(m.in.size()));
  for (const HeldMessage::In& in : m.in) {
    w.put(in.link).put(in.arrived).put(static_cast<uint32_t>(in.slots.size()));
    for (const HeldMessage::Slot& s : in.slots) w.put(s.number).put(s.parts[0]).put(s.parts[1]);
  }
  w.put(static_cast<uint32_t>(m.out.size()));
  for (const HeldMessage::Out& out : m.out) w.put(out.link).put(out.credited);
  return w.take();
}

Payload encode(const ConnectMessage& m) {
  Writer w;
  w.put(m.at).put(m.lower_rail).put(m.higher_rail).put(static_cast<uint32_t>(m.rows.size()));
  for (const QpRow& row : m.rows) w.put(row.qpn).put(row.psn);
  return w.take();
}

Payload encode_rails(uint64_t usable) {
  return Writer().put(usable).take();
}

std::optional<PathEpoch> decode_epoch(std::span<const std::byte> bytes) {
  Reader r(bytes);
  return if_ok(r, r.epoch());
}

std::optional<EndMessage> decode_end(std::span<const std::byte> bytes) {
  Reader r(bytes);
  EndMessage m;
  const auto code = r.get<uint32_t>();
  if (code > twohopSuccess && code <= twohopAborted) m.code = static_cast<twohopResult_t>(code);
  m.cause = r.text();
  return if_ok(r, std::move(m));
}

std::optional<DownMessage> decode_down(std::span<const std::byte> bytes) {
  Reader r(bytes);
  DownMessage m;
  m.at = r.epoch();
  m.planned = r.get<uint8_t>() != 0;
  m.cause = r.text();
  return if_ok(r, std::move(m));
}

std::optional<HeldMessage> decode_held(std::span<const std::byte> bytes) {
  static_assert(kMaxParts == 128, "two words a slot");
  Reader r(bytes);
  HeldMessage m;
  m.at = r.epoch();
  m.usable = r.get<uint64_t>();
  for (uint32_t n = r.count(16); n > 0; --n) {
    HeldMessage::In& in = m.in.emplace_back();
    in.link = r.get<uint32_t>();
    in.arrived = r.get<uint64_t>();
    for (uint32_t slots = r.count(17); slots > 0; --slots) {
      HeldMessage::Slot& s = in.slots.emplace_back();
      s.number = r.get<uint8_t>();
      s.parts[0] = r.get<uint64_t>();
      s.parts[1] = r.get<uint64_t>();
    }
  }
  for (uint32_t n = r.count(12); n > 0; --n) {
    HeldMessage::Out& out = m.out.emplace_back();
    out.link = r.get<uint32_t>();
    out.credited = r.get<uint64_t>();
  }
  return if_ok(r, std::move(m));
}

std::optional<ConnectMessage> decode_connect(std::span<const std::byte> bytes) {
  Reader r(bytes);
  ConnectMessage m;
  m.at = r.epoch();
  m.lower_rail = r.get<uint32_t>();
  m.higher_rail = r.get<uint32_t>();
  for (uint32_t n = r.count(8); n > 0; --n) {
    QpRow& row = m.rows.emplace_back();
    row.qpn = r.get<uint32_t>();
    row.psn = r.get<uint32_t>();
  }
  return if_ok(r, std::move(m));
}

std::optional<uint64_t> decode_rails(std::span<const std::byte> bytes) {
  Reader r(bytes);
  return if_ok(r, r.get<uint64_t>());
}

}  // namespace twohop::verbs
