// Which queue pairs did some bytes of a put come by? Only asked when they are found to be wrong.
#include <algorithm>

#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {

/// As the sender has cut it: both ends lay the same queue pairs over a link.
Carrier VerbsEndpoint::carrier_of(size_t in_link, uint64_t put, uint64_t bytes, uint64_t begin, uint64_t end) const {
  const Peer& p = peers_[in_place_[in_link].peer];
  const std::vector<size_t> qps = qps_of(p, in_[in_link].id.channel);
  const size_t parts = config_.split ? parts_of(bytes, qps.size()) : 1;
  const size_t first = config_.split ? 0 : (put - 1) % qps.size();
  Carrier carrier;
  for (size_t part = 0; part < parts; ++part) {
    if (part_begin(bytes, parts, part) >= end || part_begin(bytes, parts, part + 1) <= begin) continue;
    const Qp& qp = qps_[p.first_qp + qps[first + part]];
    carrier.name += (carrier.name.empty() ? "" : " and ") + describe(qp);
    carrier.rail = static_cast<int>(qp.rail);
  }
  return carrier;
}

}  // namespace twohop::verbs
