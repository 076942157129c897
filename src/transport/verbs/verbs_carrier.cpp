// Which queue pairs did some bytes of a put come by? Only asked when they are found to be wrong.
#include <algorithm>

#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

bool has_part(const EarlierParts& e, size_t part) {
  return (e.parts[part / 64] >> part % 64 & 1) != 0;
}

}  // namespace

/// The queue pairs of a path are about to be replaced: what has come by them, and may still be looked at, came by them.
/// What has not come is issued again as a whole, so that no byte of it is theirs.
void VerbsEndpoint::keep_carriers(Peer& p, size_t path) {
  std::vector<std::shared_ptr<const Carrier>> by;
  for (size_t q = path * p.qps_per_path; q < (path + 1) * p.qps_per_path; ++q) {
    const Qp& qp = qps_[p.first_qp + q];
    by.push_back(std::make_shared<const Carrier>(Carrier{describe(qp), static_cast<int>(qp.rail)}));
  }
  for (const InLink* link : p.in) {
    InPlace& place = in_place_[static_cast<size_t>(link - in_.data())];
    std::erase_if(place.earlier, [&](const EarlierParts& e) { return e.put <= link->released; });
    for (size_t q : qps_of(p, link->id.channel)) {
      if (q / p.qps_per_path != path) continue;
      for (uint64_t put = link->released + 1; put <= link->released + kMaxPutsInFlight; ++put) {
        EarlierParts e{put, p.first_qp + q, place.slots[(put - 1) % kMaxPutsInFlight].seen, by[q % p.qps_per_path]};
        if (put <= link->arrived) e.parts.fill(~uint64_t{0});  // its slot has been cleared
        if (std::any_of(e.parts.begin(), e.parts.end(), [](uint64_t bits) { return bits != 0; }))
          place.earlier.push_back(std::move(e));
      }
    }
  }
}

/// As the sender has cut it: both ends lay the same queue pairs over a link.
Carrier VerbsEndpoint::carrier_of(size_t in_link, uint64_t put, uint64_t bytes, uint64_t begin, uint64_t end) const {
  const InPlace& place = in_place_[in_link];
  const Peer& p = peers_[place.peer];
  const std::vector<size_t> qps = qps_of(p, in_[in_link].id.channel);
  const size_t parts = config_.split ? parts_of(bytes, qps.size()) : 1;
  const size_t first = config_.split ? 0 : (put - 1) % qps.size();
  Carrier carrier;
  for (size_t part = 0; part < parts; ++part) {
    if (part_begin(bytes, parts, part) >= end || part_begin(bytes, parts, part + 1) <= begin) continue;
    const size_t number = p.first_qp + qps[first + part];
    // The first is the one that it came by: what is here is not issued again.
    const auto earlier = std::find_if(place.earlier.begin(), place.earlier.end(), [&](const EarlierParts& e) {
      return e.put == put && e.qp == number && has_part(e, part);
    });
    const bool replaced = earlier != place.earlier.end();
    const Carrier by = replaced ? *earlier->by : Carrier{describe(qps_[number]), static_cast<int>(qps_[number].rail)};
    carrier.name += (carrier.name.empty() ? "" : " and ") + by.name;
    carrier.rail = by.rail;
  }
  return carrier;
}

}  // namespace twohop::verbs
