// See rank_sets.hpp.
#include "collectives/plan/rank_sets.hpp"

#include <algorithm>

namespace twohop {

RankSets::RankSets(int nranks) {
  Set all;
  all.words.resize((nranks + 63) / 64);
  all.size = nranks;
  for (int r = 0; r < nranks; ++r) {
    Set one{Words(all.words.size()), 1, r};
    one.words[r / 64] = uint64_t{1} << (r % 64);
    all.words[r / 64] |= one.words[r / 64];
    intern(std::move(one));
  }
  all_ = intern(std::move(all));
}

RankSets::Id RankSets::intern(Set set) {
  const auto [it, fresh] = ids_.try_emplace(set.words, static_cast<Id>(sets_.size()));
  if (fresh) sets_.push_back(std::move(set));
  return it->second;
}

RankSets::Id RankSets::unite(Id a, Id b) {
  const uint64_t pair = uint64_t{std::min(a, b)} << 32 | std::max(a, b);
  const auto it = unions_.find(pair);
  if (it != unions_.end()) return it->second;
  return unions_[pair] = unite_afresh(a, b);
}

RankSets::Id RankSets::unite_afresh(Id a, Id b) {
  const Set &x = sets_[a], &y = sets_[b];
  Set sum{x.words, x.size + y.size, std::min(x.lowest, y.lowest)};
  for (size_t i = 0; i < sum.words.size(); ++i) {
    if (x.words[i] & y.words[i]) return kOverlap;
    sum.words[i] |= y.words[i];
  }
  return intern(std::move(sum));
}

}  // namespace twohop
