#include "topology/cluster_rails.hpp"

#include <gtest/gtest.h>

#include "unit/topology/machines.hpp"

namespace twohop::topology {
namespace {

NodeSummary node(const std::string& host, std::vector<std::string> rails) {
  NodeSummary n;
  n.host = host;
  n.fingerprint = "f";
  n.gbit_per_s.assign(rails.size(), 200);
  n.rails = std::move(rails);
  return n;
}

TEST(ClusterRails, AreTheSameOnEqualNodes) {
  const std::vector<NodeSummary> nodes = {node("a", {"x", "y"}), node("b", {"x", "y"})};
  const ClusterRails rails = number_rails(nodes);
  EXPECT_EQ(rails.count, 2);
  EXPECT_EQ(rails.number, (std::vector<std::vector<int>>{{0, 1}, {0, 1}}));
  EXPECT_TRUE(rails.findings.empty());
}

TEST(ClusterRails, LeaveAGapForAMissingOneAndSayWhy) {
  std::vector<NodeSummary> nodes = {node("a", {"x", "z"}), node("b", {"x", "y", "z"}), node("c", {"x", "z"})};
  for (size_t i : {0, 2}) {
    nodes[i].rejected_ports = {"y"};
    nodes[i].rejected_reasons = {"link is down"};
  }
  const ClusterRails rails = number_rails(nodes);
  EXPECT_EQ(rails.count, 3);
  EXPECT_EQ(rails.number[0], (std::vector<int>{0, 2}));
  EXPECT_EQ(rails.findings, (std::vector<std::string>{"a, c: rail 1 (y) is missing: link is down"}));
}

TEST(ClusterRails, GoByPlaceWhereNamesDiffer) {
  const std::vector<NodeSummary> nodes = {node("a", {"x", "y"}), node("b", {"y", "x"}), node("c", {"p"})};
  const ClusterRails rails = number_rails(nodes);
  EXPECT_EQ(rails.number, (std::vector<std::vector<int>>{{0, 1}, {0, 1}, {0}}));
  EXPECT_TRUE(says(rails.findings, "b, c: ports have other names than on a"));
  EXPECT_TRUE(says(rails.findings, "c: 1 rails where a has 2: rails 1 to 1 of the job are missing"));
}

TEST(ClusterRails, ReportMixedMachinesAndSpeeds) {
  std::vector<NodeSummary> nodes = {node("a", {"x"}), node("b", {"x"})};
  nodes[0].summary = "eight of them";
  nodes[1].fingerprint = "g";
  nodes[1].gbit_per_s = {400};
  const ClusterRails rails = number_rails(nodes);
  EXPECT_TRUE(says(rails.findings, "2 kinds of machines in one job: a (eight of them); b ()"));
  EXPECT_TRUE(says(rails.findings, "b: rail 0 has 400 Gbit/s where a has 200"));
}

TEST(ClusterRails, OfNoNodesOrNoRailsAreNone) {
  EXPECT_EQ(number_rails({}).count, 0);
  const std::vector<NodeSummary> nodes = {node("a", {}), node("b", {})};
  EXPECT_EQ(number_rails(nodes).count, 0);
  EXPECT_TRUE(number_rails(nodes).findings.empty());
}

TEST(ClusterRails, SummariesHoldRailsAndWhatWasRejected) {
  MachineBuilder b;
  const int root = b.root(b.numa());
  b.gpu(b.device(root));
  b.net(b.device(root));
  b.net(b.device(root)).state = LinkState::kDown;
  const NodeSummary s = summarize(b.m, choose(b.m), "host");
  EXPECT_EQ(s.rails, std::vector<std::string>{"mlx5_0"});
  EXPECT_EQ(s.rejected_ports, std::vector<std::string>{"mlx5_1"});
  EXPECT_EQ(s.gbit_per_s, std::vector<double>{200});
}

}  // namespace
}  // namespace twohop::topology
