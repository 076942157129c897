// Which of a port's GIDs does a connection use? The choice by RoCE version, address family and reachability. Pure but
// for read_gids().
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
};

/// An IPv4-mapped GID prints as its IPv4 address, others as IPv6.
std::string to_string(const ibv_gid& gid);
bool is_ipv4(const ibv_gid& gid);
bool is_link_local(const ibv_gid& gid);

/// What the user may ask for (TWOHOP_IB_GID_INDEX, _ROCE_VERSION_NUM, _ADDR_FAMILY, _ADDR_RANGE).
struct GidWish {
  int index = -1;  // -1: choose
  int roce_version = 2;
  int family = AF_INET;
  std::string range = {};  // "10.1.0.0/16": only addresses inside; empty: any
};

/// A port's table, empty entries left out.
std::vector<GidEntry> read_gids(const Context& context, int port, int table_length);

/// The best entry. `port_name` is for messages; errors list the table.
Result<GidEntry> choose_gid(const std::vector<GidEntry>& table, const GidWish& wish, const std::string& port_name);
/// The table as text: "0: fe80::1 (RoCE v1), 1: 10.0.0.1 (RoCE v2)".
std::string describe(const std::vector<GidEntry>& table);

}  // namespace twohop::verbs
