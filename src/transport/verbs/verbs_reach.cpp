// See verbs_reach.hpp.
#include "transport/verbs/verbs_reach.hpp"

#include <algorithm>

namespace twohop::verbs {
namespace {

constexpr int kRoutableScore = 4096, kSubnetScore = 16;  // beside GidCandidate::preference, whose units are 256, 64, 1

int prefix_of(const GidEntry& a, const GidEntry& b) {
  if (a.prefix_bits != 0 || b.prefix_bits != 0) return std::max(a.prefix_bits, b.prefix_bits);
  return is_ipv4(a.gid) ? 96 + 24 : 64;
}

bool fit(const GidEntry& a, const GidEntry& b) {
  return a.type == b.type && is_ipv4(a.gid) == is_ipv4(b.gid);
}

int score(const GidCandidate& a, const GidCandidate& b) {
  const bool routable = !is_link_local(a.entry.gid) && !is_link_local(b.entry.gid);
  return (routable ? kRoutableScore : 0) + a.preference + b.preference +
         (same_subnet(a.entry, b.entry) ? kSubnetScore : 0);
}

/// The subnet of an InfiniBand port is the upper half of its GID.
GidPair choose_infiniband(const RailEnd& lower, const RailEnd& higher) {
  GidPair pair{0, 0, Reach::kRouted};
  if (lower.gids.empty() || higher.gids.empty()) return pair;
  const ibv_gid &a = lower.gids[0].entry.gid, &b = higher.gids[0].entry.gid;
  if (std::equal(a.raw, a.raw + 8, b.raw)) pair.reach = Reach::kSubnet;
  return pair;
}

GidPair choose(const RailEnd& lower, const RailEnd& higher) {
  if (lower.ethernet != higher.ethernet) return {};
  return lower.ethernet ? choose_gids(lower.gids, higher.gids) : choose_infiniband(lower, higher);
}

/// The choice for every pair of rails, [more][fewer] where `more` is the end with more rails.
using Choices = std::vector<std::vector<GidPair>>;

Reach best_reach(const Choices& choices) {
  Reach best = Reach::kNone;
  for (const auto& row : choices)
    for (const GidPair& p : row) best = std::max(best, p.reach);
  return best;
}

/// The partner of rail `i`: of those within reach the least used, the one at the same place if it is one of them.
std::optional<size_t> partner(const std::vector<GidPair>& row, size_t i, Reach needed, const std::vector<int>& used) {
  std::optional<size_t> found;
  const auto rank = [&](size_t j) { return std::pair(used[j], j == i % row.size() ? 0 : 1); };
  for (size_t j = 0; j < row.size(); ++j)
    if (row[j].reach >= needed && (!found || rank(j) < rank(*found))) found = j;
  return found;
}

/// Pairs of one number that at least `owners` of the two ends own, and that are within reach.
std::vector<RailPair> join_numbered(std::span<const RailEnd> lower, std::span<const RailEnd> higher, Reach needed,
                                    int owners) {
  std::vector<RailPair> pairs;
  for (size_t i = 0; i < lower.size(); ++i) {
    const auto fits = [&](const RailEnd& r) {
      return lower[i].number >= 0 && r.number == lower[i].number && int{lower[i].own} + int{r.own} >= owners;
    };
    const auto j = std::find_if(higher.begin(), higher.end(), fits);
    if (j == higher.end()) continue;
    if (const GidPair gids = choose(lower[i], *j); gids.reach >= needed)
      pairs.push_back({i, static_cast<size_t>(j - higher.begin()), gids});
  }
  return pairs;
}

}  // namespace

bool same_subnet(const GidEntry& a, const GidEntry& b) {
  if (is_link_local(a.gid) || is_link_local(b.gid) || !fit(a, b)) return false;
  const int bits = prefix_of(a, b);
  for (int i = 0; i < bits; ++i)
    if (((a.gid.raw[i / 8] ^ b.gid.raw[i / 8]) >> (7 - i % 8)) & 1) return false;
  return true;
}

GidPair choose_gids(std::span<const GidCandidate> lower, std::span<const GidCandidate> higher) {
  GidPair best;
  int best_score = -1;
  for (size_t i = 0; i < lower.size(); ++i)
    for (size_t j = 0; j < higher.size(); ++j) {
      if (!fit(lower[i].entry, higher[j].entry) || score(lower[i], higher[j]) <= best_score) continue;
      best_score = score(lower[i], higher[j]);
      best = {i, j, same_subnet(lower[i].entry, higher[j].entry) ? Reach::kSubnet : Reach::kRouted};
    }
  return best;
}

std::vector<RailPair> join_rails(std::span<const RailEnd> lower, std::span<const RailEnd> higher) {
  const bool lower_has_more = lower.size() >= higher.size();
  const auto &more = lower_has_more ? lower : higher, &fewer = lower_has_more ? higher : lower;
  Choices choices(more.size());
  for (size_t i = 0; i < more.size(); ++i)
    for (size_t j = 0; j < fewer.size(); ++j)
      choices[i].push_back(lower_has_more ? choose(more[i], fewer[j]) : choose(fewer[j], more[i]));
  const Reach needed = std::max(Reach::kRouted, best_reach(choices));
  for (int owners : {2, 1, 0})
    if (auto numbered = join_numbered(lower, higher, needed, owners); !numbered.empty()) return numbered;
  std::vector<int> used(fewer.size());
  std::vector<RailPair> pairs;
  for (size_t i = 0; i < more.size(); ++i) {
    const auto j = partner(choices[i], i, needed, used);
    if (!j) continue;
    ++used[*j];
    pairs.push_back(lower_has_more ? RailPair{i, *j, choices[i][*j]} : RailPair{*j, i, choices[i][*j]});
  }
  return pairs;
}

std::vector<RailPair> pairs_in_reach(std::span<const RailEnd> lower, std::span<const RailEnd> higher) {
  std::vector<RailPair> pairs;
  Reach best = Reach::kRouted;
  for (size_t i = 0; i < lower.size(); ++i)
    for (size_t j = 0; j < higher.size(); ++j) {
      const GidPair gids = choose(lower[i], higher[j]);
      best = std::max(best, gids.reach);
      pairs.push_back({i, j, gids});
    }
  std::erase_if(pairs, [&](const RailPair& p) { return p.gids.reach < best; });
  return pairs;
}

}  // namespace twohop::verbs
