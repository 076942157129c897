// See cluster.hpp.
#include "collectives/plan/cluster.hpp"

#include <algorithm>
#include <cstdint>
#include <map>

namespace twohop {

int Cluster::max_local_size() const {
  size_t most = 0;
  for (const auto& ranks : nodes) most = std::max(most, ranks.size());
  return static_cast<int>(most);
}

int Cluster::min_local_size() const {
  size_t least = SIZE_MAX;
  for (const auto& ranks : nodes) least = std::min(least, ranks.size());
  return nodes.empty() ? 0 : static_cast<int>(least);
}

int Cluster::local_owner(int node, int shard) const {
  const int group = local_size(node), rail = shard % rails;
  if (shard < group) return shard;
  if (rail >= group) return shard % group;  // the node has no rank near that rail
  const int near = (group - rail + rails - 1) / rails;
  return rail + rails * (shard / rails % near);
}

namespace {

/// Whether ranks of one index modulo `rails` have the same rails, and all others different ones.
bool are_near_by_index(const Cluster& cluster, std::span<const std::vector<int>> rails_of_rank, int rails) {
  std::vector<const std::vector<int>*> of(static_cast<size_t>(rails), nullptr);
  std::map<int, int> index_of;
  for (int rank = 0; rank < cluster.nranks(); ++rank) {
    const int index = cluster.local_of[rank] % rails;
    const auto& own = rails_of_rank[static_cast<size_t>(rank)];
    const std::vector<int>*& known = of[static_cast<size_t>(index)];
    if (own.empty() || (known && *known != own)) return false;
    known = &own;
    for (int rail : own)
      if (index_of.try_emplace(rail, index).first->second != index) return false;
  }
  return true;
}

}  // namespace

int rails_by_index(const Cluster& cluster, std::span<const std::vector<int>> rails_of_rank) {
  for (int rails = cluster.max_local_size(); rails > 1; --rails)
    if (are_near_by_index(cluster, rails_of_rank, rails)) return rails;
  return 1;
}

Cluster make_cluster(std::span<const int> node_key) {
  Cluster c;
  std::map<int, int> node_of_key;
  for (size_t rank = 0; rank < node_key.size(); ++rank) {
    const auto [it, fresh] = node_of_key.try_emplace(node_key[rank], c.nnodes());
    if (fresh) c.nodes.emplace_back();
    c.node_of.push_back(it->second);
    c.local_of.push_back(c.local_size(it->second));
    c.nodes[it->second].push_back(static_cast<int>(rank));
  }
  const auto width = static_cast<size_t>(c.max_local_size());
  c.rank_at.assign(c.nodes.size() * width, -1);
  for (size_t node = 0; node < c.nodes.size(); ++node)
    std::copy(c.nodes[node].begin(), c.nodes[node].end(), c.rank_at.begin() + static_cast<long>(node * width));
  return c;
}

}  // namespace twohop
