// See verbs_gid.hpp.
#include "transport/verbs/verbs_gid.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cerrno>
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
  const int failed = api.query_gid_ex ? api.query_gid_ex(context.get(), static_cast<uint32_t>(port),
                                                         static_cast<uint32_t>(index), &found, 0, sizeof found)
                                      : ENOSYS;
  // Empty, as most of a table of 1024 entries are: not worth two files of sysfs each.
  if (failed == ENODATA) return std::nullopt;
  if (failed == 0) {
    entry.gid = found.gid;
    entry.type = static_cast<GidType>(found.gid_type);
  } else {
    if (api.query_gid(context.get(), static_cast<uint8_t>(port), index, &entry.gid) != 0) return std::nullopt;
    entry.type = type_from_sysfs(context, port, index);
  }
  if (is_zero(entry.gid)) return std::nullopt;
  entry.interface = interface_of_gid(context->device->ibdev_path, port, index);
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

/// An interface's address as a GID; zero for families that have none.
ibv_gid gid_of(const sockaddr* a) {
  ibv_gid gid{};
  if (a && a->sa_family == AF_INET) {
    std::memcpy(gid.raw, kMappedPrefix, sizeof kMappedPrefix);
    std::memcpy(gid.raw + 12, &reinterpret_cast<const sockaddr_in*>(a)->sin_addr, 4);
  } else if (a && a->sa_family == AF_INET6) {
    std::memcpy(gid.raw, &reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr, 16);
  }
  return gid;
}

int ones(const ibv_gid& mask) {
  int bits = 0;
  for (const uint8_t byte : mask.raw) bits += std::popcount(byte);
  return bits;
}

/// Asks the host's interfaces for the prefix lengths of these addresses.
void read_prefixes(std::vector<GidEntry>& table) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return;
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    const ibv_gid address = gid_of(i->ifa_addr);
    if (is_zero(address) || !i->ifa_netmask) continue;
    for (GidEntry& e : table)
      if (std::memcmp(e.gid.raw, address.raw, sizeof address.raw) == 0)
        // The mapped prefix counts as ones in both.
        e.prefix_bits = static_cast<uint8_t>(ones(gid_of(i->ifa_netmask)) + (is_ipv4(address) ? 96 - 16 : 0));
  }
  ::freeifaddrs(all);
}

/// Every wish outweighs those after it, also when both ends' preferences are added.
uint16_t preference(const GidEntry& e, const GidWish& wish) {
  const bool ipv4 = is_ipv4(e.gid);
  const bool asked_for = wish.family == (ipv4 ? Family::kIpv4 : Family::kIpv6);
  const bool version = e.type == (wish.roce_version == 1 ? GidType::kRoceV1 : GidType::kRoceV2);
  return static_cast<uint16_t>((asked_for ? 256 : 0) + (version ? 64 : 0) + (ipv4 ? 1 : 0));
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
    text += fmt::format("{}{}: {} ({}{}{})", text.empty() ? "" : ", ", e.index, to_string(e.gid), gid_type_name(e.type),
                        e.interface.empty() ? "" : ", ", e.interface);
  return text.empty() ? "none" : text;
}

std::string describe(const std::vector<GidCandidate>& candidates) {
  std::vector<GidEntry> table;
  for (const GidCandidate& c : candidates) table.push_back(c.entry);
  return describe(table);
}

std::string interface_of_gid(const std::string& ibdev_path, int port, int index) {
  std::ifstream file(fmt::format("{}/ports/{}/gid_attrs/ndevs/{}", ibdev_path, port, index));
  std::string name;
  std::getline(file, name);
  return name;
}

std::vector<GidEntry> read_gids(const Context& context, int port, int table_length) {
  constexpr int kMaxIndex = 255;  // an address handle has 8 bits for it
  std::vector<GidEntry> table;
  for (int i = 0; i < std::min(table_length, kMaxIndex + 1); ++i)
    if (auto entry = read_entry(context, port, i)) table.push_back(*entry);
  read_prefixes(table);
  return table;
}

Result<std::vector<GidCandidate>> gid_candidates(const std::vector<GidEntry>& table, const GidWish& wish,
                                                 const std::string& port_name) {
  if (wish.index >= 0) {
    const auto it = std::find_if(table.begin(), table.end(), [&](const GidEntry& e) { return e.index == wish.index; });
    if (it != table.end()) return std::vector{GidCandidate{*it, preference(*it, wish)}};
    return make_error(twohopInvalidArgument,
                      "TWOHOP_IB_GID_INDEX={}: GID index {} of {} is empty (has its network interface an address?); "
                      "it has {}",
                      wish.index, wish.index, port_name, describe(table));
  }
  Range any;
  if (!wish.range.empty()) {
    auto parsed = parse_range(wish.range);
    if (!parsed) return parsed.error();
    any = *parsed;
  }
  std::vector<GidCandidate> candidates;
  for (const GidEntry& e : table)
    if (any.contains(e.gid)) candidates.push_back({e, preference(e, wish)});
  if (table.empty())
    return make_error(twohopSystemError, "{} has no GID: give its network interface an address and bring it up",
                      port_name);
  if (candidates.empty())
    return make_error(twohopInvalidArgument, "TWOHOP_IB_ADDR_RANGE={}: {} has no GID inside; it has {}", wish.range,
                      port_name, describe(table));
  return candidates;
}

}  // namespace twohop::verbs
