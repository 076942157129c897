// Which rail of each node is which rail of the job? Rails that carry one number on all nodes form one plane of the
// network; a rail that a node lacks leaves a gap there, with the reason. Pure: from what the nodes say of themselves.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "topology/rails.hpp"

namespace twohop::topology {

/// What a node tells the others.
struct NodeSummary {
  std::string host;
  std::string fingerprint;                                    // of its machine; equal for machines that are built alike
  std::string summary;                                        // the machine in a few words
  std::vector<std::string> rails;                             // port names, by local rail number
  std::vector<double> gbit_per_s;                             // of each; 0: not known
  std::vector<std::string> rejected_ports, rejected_reasons;  // in the same order
};

struct ClusterRails {
  int count = 0;                         // of the job's rails
  std::vector<std::vector<int>> number;  // [node][local rail]: its number in the job, ascending
  std::vector<std::string> findings;     // each missing rail, names that differ, speeds that differ, mixed machines
};

NodeSummary summarize(const Machine& machine, const RailChoice& choice, std::string host);
ClusterRails number_rails(std::span<const NodeSummary> nodes);

}  // namespace twohop::topology
