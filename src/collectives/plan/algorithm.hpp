// The table of algorithms. A new one is a file of its own and a row in algorithm.cpp.
#pragma once

#include <span>
#include <string_view>

#include "collectives/plan/cluster.hpp"
#include "collectives/plan/schedule.hpp"

namespace twohop {

/// Ring sizes of a schedule; small values bound memory, larger ones let the stages drift apart. Rings of one slot can
/// deadlock (every rank waits for its neighbour's only slot); two are enough for any shape.
struct Depths {
  int32_t chunks_per_put = 1;
  int32_t blocks = 4;     // window slots of an area, in puts; at least 2
  int32_t put_slots = 4;  // inbox slots of a link; at least 2
};

/// What is asked for, the same on all ranks.
struct Request {
  const Cluster* cluster = nullptr;
  Collective collective = Collective::kAllReduce;
  int32_t root = 0;
  Depths depths;
};

struct Algorithm {
  std::string_view name;
  bool (*supports)(const Cluster&, Collective);
  Frame (*frame)(const Request&);
  /// The program of one rank. Work and memory grow with this rank's own steps only.
  Program (*program)(const Request&, int rank);
  /// Payload bytes that leave a node, divided by the bytes of the buffer.
  double (*bytes_out_per_byte)(const Request&, int node);
  /// Puts may go between ranks that are near different rails. (Where a node has fewer ranks than the cluster has rails
  /// this cannot be avoided, and does not count.)
  bool crosses_rails = false;
  /// without_staging() (direct.hpp) is right for its programs; the checker's tests hold it to that.
  bool can_be_direct = false;
};

/// Of the busiest node: the bound that measurements are held against.
double busiest_bytes_out_per_byte(const Algorithm& algorithm, const Request& request);

std::span<const Algorithm> algorithms();
/// No program of any algorithm has more lanes than this.
int max_lanes(const Cluster& cluster);
/// Null when there is none of that name.
const Algorithm* find_algorithm(std::string_view name);

}  // namespace twohop
