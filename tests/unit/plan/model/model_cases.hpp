// What the tests of the model share: clusters, models that cost nothing but one thing, and every algorithm that fits.
#pragma once

#include <memory>

#include "collectives/plan/model/predictor.hpp"
#include "unit/plan/shapes.hpp"

namespace twohop {

inline std::shared_ptr<const Cluster> even_cluster(int nodes, int ranks_per_node) {
  return std::make_shared<Cluster>(cluster_of(std::vector<int>(static_cast<size_t>(nodes), ranks_per_node)));
}

/// Everything but the wire is free.
inline NetworkModel only_the_wire(double gbytes_per_s) {
  NetworkModel m;
  m.copy_gbytes_per_s = m.reduce_gbytes_per_s = m.memory_gbytes_per_s = 1e6;
  m.step_us = m.signal_us = m.call_us = m.sweep_us = m.message_us = m.doorbell_us = m.completion_us = m.switch_us = 0;
  m.latency_us = m.header_bytes = 0;
  m.send_gbytes_per_s = m.receive_gbytes_per_s = 0;
  m.rails = 1;
  m.rail_gbytes_per_s = gbytes_per_s;
  return m;
}

inline std::vector<const Algorithm*> algorithms_for(const Cluster& cluster, Collective collective) {
  std::vector<const Algorithm*> fitting;
  for (const Algorithm& a : algorithms())
    if (a.supports(cluster, collective)) fitting.push_back(&a);
  return fitting;
}

}  // namespace twohop
