// See verbs_gid.hpp.
#include "transport/verbs/verbs_gid.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>

namespace twohop::verbs {
namespace {

constexpr uint8_t kMappedPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_zero(const ibv_gid& g) {
  return std::all_of(std::begin(g.raw), std::end(g.raw), [](uint8_t b) { return b == 0; });
}

GidType type_from_sysfs(const Context& context, int port, int index) {
  std::ifstream file(fmt::format("{}/ports/{}/gid_attrs/types/{}", context->device->ibdev_path, port, index));
  std::string text;
  std::getline(file, text);
  if (text.find("v2") != std::string::npos) return GidType::kRoceV2;
  return text.find("RoCE") != std::string::npos ? GidType::kRoceV1 : GidType::kIb;
}

std::optional<GidEntry> read_entry(const Context& context, int port, int index) {
  GidEntry entry;
  entry.index = index;
  ibv_gid_entry found{};
  const VerbsApi& api = context.api();
  if (api.query_gid_ex && api.query_gid_ex(context.get(), static_cast<uint32_t>(port), static_cast<uint32_t>(index),
                                           &found, 0, sizeof found) == 0) {
    entry.gid = found.gid;
    entry.type = static_cast<GidType>(found.gid_type);
  } else {
    if (api.query_gid(context.get(), static_cast<uint8_t>(port), index, &entry.gid) != 0) return std::nullopt;
    entry.type = type_from_sysfs(context, port, index);
  }
  if (is_zero(entry.gid)) return std::nullopt;
  return entry;
}

/// An address range as 128 bits, IPv4 mapped.
struct Range {
  uint8_t bytes[16] = {};
  int bits = 0;
  bool contains(const ibv_gid& g) const {
    for (int i = 0; i < bits; ++i)
      if (((g.raw[i / 8] ^ bytes[i / 8]) >> (7 - i % 8)) & 1) return false;
    return true;
  }
};

Result<Range> parse_range(const std::string& text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const std::string address = text.substr(0, slash);
  Range range;
  const bool v4 = ::inet_pton(AF_INET, address.c_str(), range.bytes + 12) == 1;
  if (v4) std::memcpy(range.bytes, kMappedPrefix, sizeof kMappedPrefix);
  bool good = v4 || ::inet_pton(AF_INET6, address.c_str(), range.bytes) == 1;
  const int most = v4 ? 32 : 128;
  int bits = most;
  if (slash < text.size()) {
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + slash + 1, end, bits);
    good &= parsed.ec == std::errc() && parsed.ptr == end && bits >= 0 && bits <= most;
  }
  if (!good)
    return make_error(twohopInvalidArgument,
                      "TWOHOP_IB_ADDR_RANGE={}: accepted is <address>/<bits>, as 10.1.0.0/16 or fd00::/8", text);
  range.bits = bits + (v4 ? 96 : 0);
  return range;
}

/// Larger is better. Every wish outweighs those after it.
int score(const GidEntry& e, const GidWish& wish, const std::optional<Range>& range) {
  const bool wanted_version = e.type == (wish.roce_version == 1 ? GidType::kRoceV1 : GidType::kRoceV2);
  const bool wanted_family = is_ipv4(e.gid) == (wish.family == AF_INET);
  // A link-local address reaches hosts of the same segment only, and on several rails each has the same prefix.
  const bool routable = !is_link_local(e.gid);
  return (range && range->contains(e.gid) ? 16 : 0) + (routable ? 8 : 0) + (wanted_version ? 4 : 0) +
         (wanted_family ? 2 : 0);
}

}  // namespace

const char* gid_type_name(GidType t) {
  switch (t) {
    case GidType::kRoceV1:
      return "RoCE v1";
    case GidType::kRoceV2:
      return "RoCE v2";
    default:
      return "IB";
  }
}

bool is_ipv4(const ibv_gid& g) {
  return std::memcmp(g.raw, kMappedPrefix, sizeof kMappedPrefix) == 0;
}

bool is_link_local(const ibv_gid& g) {
  return (g.raw[0] == 0xfe && (g.raw[1] & 0xc0) == 0x80) || (is_ipv4(g) && g.raw[12] == 169 && g.raw[13] == 254);
}

std::string to_string(const ibv_gid& g) {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_ipv4(g))
    ::inet_ntop(AF_INET, g.raw + 12, text, sizeof text);
  else
    ::inet_ntop(AF_INET6, g.raw, text, sizeof text);
  return text;
}

std::string describe(const std::vector<GidEntry>& table) {
  std::string text;
  for (const GidEntry& e : table)
    text += fmt::format("{}{}: {} ({})", text.empty() ? "" : ", ", e.index, to_string(e.gid), gid_type_name(e.type));
  return text.empty() ? "none" : text;
}

std::vector<GidEntry> read_gids(const Context& context, int port, int table_length) {
  std::vector<GidEntry> table;
  for (int i = 0; i < table_length; ++i)
    if (auto entry = read_entry(context, port, i)) table.push_back(*entry);
  return table;
}

Result<GidEntry> choose_gid(const std::vector<GidEntry>& table, const GidWish& wish, const std::string& port_name) {
  if (wish.index >= 0) {
    const auto it = std::find_if(table.begin(), table.end(), [&](const GidEntry& e) { return e.index == wish.index; });
    if (it != table.end()) return *it;
    return make_error(twohopInvalidArgument, "TWOHOP_IB_GID_INDEX={}: {} has no such GID; it has {}", wish.index,
                      port_name, describe(table));
  }
  std::optional<Range> range;
  if (!wish.range.empty()) {
    auto parsed = parse_range(wish.range);
    if (!parsed) return parsed.error();
    range = *parsed;
  }
  const auto best = std::max_element(table.begin(), table.end(), [&](const GidEntry& a, const GidEntry& b) {
    return score(a, wish, range) < score(b, wish, range);
  });
  if (best == table.end())
    return make_error(twohopSystemError, "{} has no GID: give its network interface an address and bring it up",
                      port_name);
  if (range && !range->contains(best->gid))
    return make_error(twohopInvalidArgument, "TWOHOP_IB_ADDR_RANGE={}: {} has no GID inside; it has {}", wish.range,
                      port_name, describe(table));
  return *best;
}

}  // namespace twohop::verbs
