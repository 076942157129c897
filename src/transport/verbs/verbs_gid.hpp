// Which GIDs does a port have, and which of them may a connection use? The table, and the user's wishes of it; the
// choice for one peer is made in verbs_reach.hpp. Pure but for read_gids().
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/result.hpp"
#include "transport/verbs/verbs_objects.hpp"

namespace twohop::verbs {

enum class GidType : uint8_t { kIb = 0, kRoceV1 = 1, kRoceV2 = 2 };
const char* gid_type_name(GidType t);

struct GidEntry {
  int index = 0;
  ibv_gid gid{};
  GidType type = GidType::kIb;
  uint8_t prefix_bits = 0;     // length of its subnet's prefix as part of the 128 bits; 0: not known
  std::string interface = {};  // the network interface that it belongs to; empty: not known
};

/// An IPv4-mapped GID prints as its IPv4 address, others as IPv6.
std::string to_string(const ibv_gid& gid);
bool is_ipv4(const ibv_gid& gid);
bool is_link_local(const ibv_gid& gid);

enum class Family : uint8_t { kAny, kIpv4, kIpv6 };

/// What the user may ask for (TWOHOP_IB_GID_INDEX, _ROCE_VERSION_NUM, _ADDR_FAMILY, _ADDR_RANGE).
struct GidWish {
  int index = -1;  // -1: choose
  int roce_version = 2;
  Family family = Family::kAny;  // any: IPv4 where both are equally good
  std::string range = {};        // "10.1.0.0/16": only addresses inside; empty: any
};

/// An entry that the wish allows, and how well it fits: more is better, and comparable between ranks.
struct GidCandidate {
  GidEntry entry;
  uint16_t preference = 0;
};

/// A port's table, empty slots left out.
std::vector<GidEntry> read_gids(const Context& context, int port, int table_length);
/// The interface of a GID as sysfs has it; empty: unknown.
std::string interface_of_gid(const std::string& ibdev_path, int port, int index);

/// Never empty. `port_name` is for messages; errors list the table.
Result<std::vector<GidCandidate>> gid_candidates(const std::vector<GidEntry>& table, const GidWish& wish,
                                                 const std::string& port_name);
/// The table as text: "0: fe80::1 (RoCE v1), 1: 10.0.0.1 (RoCE v2, eth0)".
std::string describe(const std::vector<GidEntry>& table);
std::string describe(const std::vector<GidCandidate>& candidates);

}  // namespace twohop::verbs
