// Wire: when does a put that is handed over at some time begin and end on its rails?
//
// Every node has rails; a rail carries one put at a time in each direction, in the order in which they were handed
// over. A rank on channel c uses rail (its local rank + c) mod rails at both ends: rails are never crossed.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/plan/model/cost_program.hpp"
#include "collectives/plan/model/network_model.hpp"

namespace twohop {

/// What the spine leaves of each link's rate: [channel][link], 1 where it is not in the way. Every queue pair is hashed
/// to an uplink of its leaf and a downlink of the other; a link that stands for many pairs of ranks has the worst of
/// theirs, since the slowest edge paces a collective.
std::vector<std::vector<double>> spine_shares(const CostProgram& program, const NetworkModel& model, int channels);

class Wire {
 public:
  Wire(const CostProgram& program, const NetworkModel& model, int channels);

  struct Transfer {
    int rail = 0;
    double begin_us = 0, end_us = 0;  // on the sender's rail
    double arrived_us = 0;            // the last byte is at the receiver
  };
  Transfer send(int link, int channel, uint64_t bytes, double now_us);

  int rail_of(const CostRank& rank, int channel) const;
  /// Time that the rail's sending side was busy.
  double busy_us(int node, int rail) const { return rails_[index(node, rail)].busy_us; }
  double busiest_us() const;
  double retransmitted_share() const { return sent_us_ > 0 ? lost_us_ / sent_us_ : 0; }

 private:
  struct Rail {
    double out_free_us = 0, in_free_us = 0, busy_us = 0;
  };
  size_t index(int node, int rail) const { return static_cast<size_t>(node * model_.rails + rail); }

  const CostProgram& program_;
  const NetworkModel& model_;
  std::vector<std::vector<double>> shares_;
  std::vector<Rail> rails_;
  double bytes_per_us_ = 0, sent_us_ = 0, lost_us_ = 0;
};

}  // namespace twohop
