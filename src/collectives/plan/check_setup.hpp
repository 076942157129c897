// What the checker knows before it simulates: the programs of all ranks and calls, found to be well formed, their
// links, and the numbering of threads (lanes and links of a node) in vector clocks.
#pragma once

#include <optional>
#include <vector>

#include "collectives/plan/check_links.hpp"
#include "collectives/plan/check_meaning.hpp"
#include "collectives/plan/checker.hpp"

namespace twohop {

struct CheckSetup {
  CheckSetup(const Cluster& cluster, const std::vector<CheckedCall>& calls, const CheckOptions& options);

  uint32_t thread(int rank, size_t lane) const {
    return static_cast<uint32_t>(cluster.local_of[rank] * max_lanes + lane);
  }
  /// By node and thread: events in a round of the first call.
  std::vector<std::vector<uint32_t>> events_per_round() const;

  const Cluster& cluster;
  std::vector<Frame> frames;                           // by call
  std::vector<Meaning> meanings;                       // by call
  std::vector<std::vector<Program>> programs;          // by call, rank
  std::vector<std::vector<std::vector<int>>> out, in;  // by call, rank, link of the program: link of the cluster
  std::vector<std::vector<int>> links_from, links_to;  // by rank
  Links links;
  size_t max_lanes = 1;
  std::vector<size_t> width;   // by node: of its clocks
  std::optional<Fault> fault;  // a program that is not well formed

 private:
  void make_programs(const std::vector<CheckedCall>& calls, const CheckOptions& options);
  void number_threads();
  void resolve_links(size_t call, int rank);
};

/// The fault of a program that names what it may not: another node's memory, a lane that is not there, ...
std::optional<Fault> malformed(const CheckSetup& setup, size_t call, int rank);

}  // namespace twohop
