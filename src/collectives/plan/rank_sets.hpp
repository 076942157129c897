// Sets of ranks as small numbers, for the checker: equal sets have equal numbers, and unions are worked out once.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

namespace twohop {

class RankSets {
 public:
  using Id = uint32_t;
  static constexpr Id kOverlap = UINT32_MAX;

  explicit RankSets(int nranks);
  Id single(int rank) const { return static_cast<Id>(rank); }
  Id all() const { return all_; }
  /// The union of two sets; kOverlap when they share a rank.
  Id unite(Id a, Id b);
  int size(Id id) const { return sets_[id].size; }
  int lowest(Id id) const { return sets_[id].lowest; }
  /// The set with `by` added to every rank, modulo the number of ranks.
  Id rotate(Id id, int by);
  int lowest_rotated(Id id, int by) const;

 private:
  using Words = std::vector<uint64_t>;
  /// The lowest rank from `from` on; -1 when there is none.
  int lowest_from(Id id, int from) const;
  struct Set {
    Words words;
    int size = 0, lowest = 0;
  };
  Id intern(Set set);
  Id unite_afresh(Id a, Id b);

  std::vector<Set> sets_;
  std::map<Words, Id> ids_;
  std::unordered_map<uint64_t, Id> unions_, rotations_;
  int nranks_ = 0;
  Id all_ = 0;
};

}  // namespace twohop
