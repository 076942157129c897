// See rank_sets.hpp.
#include "collectives/plan/rank_sets.hpp"

#include <algorithm>
#include <bit>

namespace twohop {

RankSets::RankSets(int nranks) : nranks_(nranks) {
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

RankSets::Id RankSets::rotate(Id id, int by) {
  const auto ahead = static_cast<uint32_t>((by % nranks_ + nranks_) % nranks_);
  const auto [it, fresh] = rotations_.try_emplace(uint64_t{id} << 32 | ahead);
  if (!fresh) return it->second;
  Set sum{Words(sets_[id].words.size()), sets_[id].size, lowest_rotated(id, by)};
  for (int r = lowest_from(id, 0); r >= 0; r = lowest_from(id, r + 1)) {
    const uint32_t to = (r + ahead) % nranks_;
    sum.words[to / 64] |= uint64_t{1} << (to % 64);
  }
  return it->second = intern(std::move(sum));
}

int RankSets::lowest_rotated(Id id, int by) const {
  const int ahead = (by % nranks_ + nranks_) % nranks_;
  const int wrapped = lowest_from(id, nranks_ - ahead);
  return wrapped >= 0 ? wrapped + ahead - nranks_ : sets_[id].lowest + ahead;
}

int RankSets::lowest_from(Id id, int from) const {
  const Words& words = sets_[id].words;
  for (size_t w = from / 64; w < words.size(); ++w) {
    uint64_t bits = words[w];
    if (w == static_cast<size_t>(from) / 64) bits &= ~uint64_t{0} << (from % 64);
    if (bits) return static_cast<int>(w * 64) + std::countr_zero(bits);
  }
  return -1;
}

}  // namespace twohop
