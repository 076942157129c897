// What the checker knows before it simulates: the programs of all ranks and calls, found to be well formed, their
// links, and the numbering of threads (lanes and links of a node) in vector clocks.
#pragma once

#include <optional>
#include <vector>

#include "collectives/plan/check_links.hpp"
#include "collectives/plan/check_meaning.hpp"
#include "collectives/plan/check_symmetry.hpp"
#include "collectives/plan/checker.hpp"

namespace twohop {

struct CheckSetup {
  CheckSetup(const Cluster& cluster, const std::vector<CheckedCall>& calls, const CheckOptions& options);

  /// Ranks whose programs are run: all, or, by symmetry, those of node 0.
  int nranks() const { return rotation ? cluster.local_size(0) : cluster.nranks(); }
  /// Whose program stands for a rank's.
  int stands_for(int rank) const { return rotation ? cluster.local_of[rank] : rank; }
  /// A link end of `stands_for(rank)` that is the same as the end `peer` of `rank`, or of its own peer's.
  int seen_from(int rank, int peer) const { return rotation ? rotation->rank(peer, -cluster.node_of[rank]) : peer; }

  uint32_t thread(int rank, size_t lane) const {
    return static_cast<uint32_t>(cluster.local_of[rank] * max_lanes + lane);
  }
  /// By node and thread: events in a round of the first call.
  std::vector<std::vector<uint32_t>> events_per_round() const;

  const Cluster& cluster;
  std::optional<Rotation> rotation;                    // set when node 0 is checked for all
  std::vector<Frame> frames;                           // by call
  std::vector<Meaning> meanings;                       // by call
  std::vector<std::vector<Program>> programs;          // by call, rank
  std::vector<std::vector<std::vector<int>>> out, in;  // by call, rank, link of the program: link of the cluster
  std::vector<std::vector<int>> links_from, links_to;  // by rank
  Links links;
  size_t inboxes = 0;
  size_t max_lanes = 1;
  std::vector<size_t> width;   // by node: of its clocks
  std::optional<Fault> fault;  // a program that is not well formed

 private:
  void make_programs(const std::vector<CheckedCall>& calls, const CheckOptions& options);
  void share_inboxes_of(int rank, const std::vector<CheckedCall>& calls);
  void number_threads();
  void resolve_links(size_t call, int rank);
};

/// The fault of a program that names what it may not: another node's memory, a lane that is not there, ...
std::optional<Fault> malformed(const CheckSetup& setup, size_t call, int rank);

}  // namespace twohop
