// See shapes.hpp.
#include "shapes.hpp"

#include <algorithm>
#include <cstdlib>

namespace twohop {

Cluster cluster_of(const std::vector<int>& sizes) {
  std::vector<int> key;
  for (size_t node = 0; node < sizes.size(); ++node) key.insert(key.end(), sizes[node], static_cast<int>(node));
  return make_cluster(key);
}

std::vector<const Algorithm*> all_algorithms() {
  std::vector<const Algorithm*> all;
  for (const Algorithm& a : algorithms()) all.push_back(&a);
  return all;
}

std::string algorithm_name(const testing::TestParamInfo<const Algorithm*>& info) {
  std::string name(info.param->name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string describe(const Cluster& cluster, const std::vector<CheckedCall>& calls) {
  std::string s = "node of each rank";
  for (int node : cluster.node_of) s += " " + std::to_string(node);
  for (const CheckedCall& c : calls)
    s += " | " + std::string(c.algorithm->name) + " " + collective_name(c.collective) + " root " +
         std::to_string(c.root) + " k " + std::to_string(c.depths.chunks_per_put) + " blocks " +
         std::to_string(c.depths.blocks) + " put_slots " + std::to_string(c.depths.put_slots) + " rounds " +
         std::to_string(c.rounds) + (c.in_place ? " in place" : "");
  return s;
}

std::string text(const CheckReport& r) {
  return r.fault ? fault_name(r.fault->kind) + (": " + r.fault->text) : "proved";
}

std::vector<int> RandomShape::sizes(int max_nodes, int max_group) {
  std::vector<int> s(pick(1, max_nodes));
  const bool even = pick(0, 1) == 0;
  const int group = pick(1, max_group);
  for (int& g : s) g = even ? group : pick(1, max_group);
  return s;
}

Cluster RandomShape::cluster(int max_nodes, int max_group) {
  const std::vector<int> sizes = this->sizes(max_nodes, max_group);
  std::vector<int> key;
  const bool round_robin = pick(0, 2) == 0;
  for (int i = 0; round_robin && i < max_group; ++i)
    for (size_t node = 0; node < sizes.size(); ++node)
      if (i < sizes[node]) key.push_back(static_cast<int>(node));
  if (round_robin) return make_cluster(key);
  for (size_t node = 0; node < sizes.size(); ++node) key.insert(key.end(), sizes[node], static_cast<int>(node));
  if (pick(0, 1) == 0) std::shuffle(key.begin(), key.end(), rng_);
  return make_cluster(key);
}

CheckedCall RandomShape::call(const Cluster& cluster, Depths depths, int max_rounds) {
  CheckedCall c;
  do {
    c.algorithm = &algorithms()[pick(0, static_cast<int>(algorithms().size()) - 1)];
    c.collective = kCollectives[pick(0, 3)];
  } while (!c.algorithm->supports(cluster, c.collective));
  if (c.collective == Collective::kBroadcast) c.root = pick(0, cluster.nranks() - 1);
  c.depths = depths;
  c.rounds = pick(1, max_rounds);
  c.in_place = pick(0, 1) == 1;
  return c;
}

uint64_t test_seed() {
  const char* s = std::getenv("TEST_SEED");
  return s ? std::strtoull(s, nullptr, 10) : std::random_device{}();
}
int test_shapes(int usual) {
  const char* s = std::getenv("TEST_SHAPES");
  if (s) return std::atoi(s);
#ifdef __SANITIZE_ADDRESS__
  return (usual + 3) / 4;  // it looks at the code, which needs fewer, and each takes fifteen times as long
#else
  return usual;
#endif
}

}  // namespace twohop
