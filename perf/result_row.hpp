// One measured row: what the table, the comparison and the JSON file are printed from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "iteration_stats.hpp"
#include "network_counts.hpp"

namespace twohop::perf {

/// The shape of a communicator, as its own twohopCommShape says.
struct ClusterShape {
  int nranks = 1, nnodes = 1;
};

struct Measurement {
  double time_us = 0;              // what the table prints
  IterationStats time;             // over the iterations, combined over ranks as -a says; us
  IterationStats slowest_rank;     // over the iterations, of the slowest rank in each; us
  std::optional<uint64_t> nwrong;  // elements, all ranks; empty: not checked
  double internode_bytes = 0;      // out of the busiest node, per call
  NetworkCounts network;           // over the iterations, all ranks
};

struct Row {
  std::string scheme, type, op;
  size_t bytes = 0, count = 0;
  int bucket = -1;          // its index in --buckets; -1 in a sweep
  bool whole_step = false;  // all buckets together
  Measurement out_of_place, in_place;
};

/// GB/s of 1e9 bytes. algbw is bytes / time; busbw scales it by 2(n-1)/n, what a link carries at best.
double algbw(double bytes, double time_us);
double busbw(double bytes, double time_us, int nranks);

/// The least that can leave the busiest node, 2(N-1)/N x bytes; 0 on one node.
double internode_bound(double bytes, int nnodes);

}  // namespace twohop::perf
