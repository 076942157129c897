// BoundSchedule: the program of this rank with addresses and links filled in, for every channel. Made once per
// (algorithm, collective, root) and kept; binding is the only place that allocates.
#pragma once

#include <atomic>
#include <vector>

#include "collectives/exec/node_group.hpp"
#include "collectives/plan/algorithm.hpp"
#include "transport/endpoint.hpp"

namespace twohop {

struct BoundRef {
  Space space = Space::kInput;
  int16_t raw_local = -1;     // index on the node of the rank whose unscaled contribution this is
  uint16_t part = 0;          // inbox: chunk of the put
  uint32_t first_slot = 0;    // window: of the area
  std::byte* base = nullptr;  // window, inbox: of the half of even calls
  Linear index;
};

struct BoundStep {
  StepKind kind = StepKind::kSignal;
  bool final = false;
  uint16_t shard = 0;
  uint32_t chunk = 0;
  uint16_t lane = 0;                               // kWait
  int16_t local = -1;                              // kWait: index on the node
  const std::atomic<uint64_t>* counter = nullptr;  // kWait
  size_t link = 0;                                 // kPut, kSent, kArrive, kRelease: index in the endpoint
  Linear target;
  BoundRef dst;
  std::vector<BoundRef> srcs;
};

struct BoundSchedule {
  const Algorithm* algorithm = nullptr;
  Frame frame;
  std::vector<std::vector<std::vector<BoundStep>>> lanes;  // by channel, lane
};

/// The links of a communicator, one entry per channel and link end, as given to Endpoint::connect.
struct LinkTable {
  std::vector<LinkId> out, in;
  size_t find_out(const LinkId& id) const;  // out.size() when there is none
  size_t find_in(const LinkId& id) const;
};

/// All links that these algorithms need at `rank` for any collective, in a fixed order, for all channels.
LinkTable links_of(std::span<const Algorithm* const> algorithms, const Cluster& cluster, int rank, int channels);

/// `tables[i]` belongs to the node's i-th rank: inboxes are numbered by it. `direct`: without staging
/// (plan/direct.hpp).
BoundSchedule bind(const Algorithm& algorithm, const Request& request, bool direct, int rank, NodeGroup& node,
                   const std::vector<LinkTable>& tables, int channels);

}  // namespace twohop
