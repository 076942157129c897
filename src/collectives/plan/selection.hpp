// Selection: which algorithms may be used, as TWOHOP_ALGO says, and which of them a call uses.
//
//   auto         the library chooses
//   a,b          only these; for a collective that none of them knows, two-hop
//   ^a,b         all but these
//
// Among those that may be used: one-shot while little is moved, else the first of the table that knows the collective.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "collectives/plan/algorithm.hpp"

namespace twohop {

/// What TWOHOP_ALGO may be, for messages.
std::string accepted_selections();

class Selection {
 public:
  /// `auto`.
  Selection();
  static Result<Selection> parse(std::string_view text);

  /// `bytes` of the rank's buffer. It does not change between 0 and little_bytes(), nor beyond.
  const Algorithm& choose(const Cluster& cluster, Collective collective, uint64_t bytes) const;
  /// Whether the algorithm may be used, and can be.
  bool allows(const Algorithm& algorithm, const Cluster& cluster, Collective collective) const;
  /// All that it allows, in the order of the table.
  std::vector<const Algorithm*> allowed(const Cluster& cluster, Collective collective) const;
  /// What a tuner should compare: all that it allows; where the library chooses, those that can be best somewhere.
  std::vector<const Algorithm*> worth_comparing(const Cluster& cluster, Collective collective) const;
  /// All that choose() can return on the cluster, in the order of the table.
  std::vector<const Algorithm*> reachable(const Cluster& cluster) const;

  static uint64_t little_bytes(const Cluster& cluster);

 private:
  bool may_use(std::string_view name) const;
  const Algorithm* first_but_one_shot(const Cluster& cluster, Collective collective) const;

  std::vector<std::string_view> names_;  // of the table
  bool auto_ = true;
};

}  // namespace twohop
