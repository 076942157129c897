// GID tables for tests, written as show_gids prints them: index, address, version.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transport/verbs/verbs_reach.hpp"

namespace twohop::verbs {

inline GidEntry entry(int index, const std::string& address, GidType type) {
  GidEntry e;
  e.index = index;
  e.type = type;
  if (address.find(':') == std::string::npos) {
    e.gid.raw[10] = e.gid.raw[11] = 0xff;
    EXPECT_EQ(::inet_pton(AF_INET, address.c_str(), e.gid.raw + 12), 1) << address;
  } else {
    EXPECT_EQ(::inet_pton(AF_INET6, address.c_str(), e.gid.raw), 1) << address;
  }
  return e;
}

constexpr GidType kV1 = GidType::kRoceV1, kV2 = GidType::kRoceV2;

/// What the kernel makes of an interface with these addresses: each as v1 and v2, the link-local one first.
inline std::vector<GidEntry> table_of(const std::vector<std::string>& addresses, int first = 0) {
  std::vector<GidEntry> table;
  for (const std::string& a : addresses)
    for (const GidType type : {kV1, kV2}) table.push_back(entry(first++, a, type));
  return table;
}

inline std::vector<GidCandidate> candidates(const std::vector<GidEntry>& table, const GidWish& wish = {}) {
  auto found = gid_candidates(table, wish, "mlx5_0:1");
  EXPECT_TRUE(found) << found.error().message;
  return found ? *found : std::vector<GidCandidate>();
}

}  // namespace twohop::verbs
