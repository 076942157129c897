// See check_setup.hpp.
#include "collectives/plan/check_setup.hpp"

#include <algorithm>
#include <map>

#include "collectives/plan/direct.hpp"
#include "collectives/plan/inbox_sharing.hpp"

namespace twohop {

CheckSetup::CheckSetup(const Cluster& c, const std::vector<CheckedCall>& calls, const CheckOptions& options)
    : cluster(c) {
  if (options.by_symmetry) rotation = Rotation(c);
  make_programs(calls, options);
  for (int r = 0; r < nranks(); ++r) share_inboxes_of(r, calls);
  out.resize(calls.size(), std::vector<std::vector<int>>(nranks()));
  in = out;
  for (size_t call = 0; call < calls.size() && !fault; ++call)
    for (int rank = 0; rank < nranks() && !fault; ++rank) {
      fault = malformed(*this, call, rank);
      if (!fault) resolve_links(call, rank);
    }
  number_threads();
}

void CheckSetup::make_programs(const std::vector<CheckedCall>& calls, const CheckOptions& options) {
  for (size_t c = 0; c < calls.size(); ++c) {
    const Request request{&cluster, calls[c].collective, calls[c].root, calls[c].depths};
    frames.push_back(calls[c].algorithm->frame(request));
    meanings.emplace_back(cluster, frames.back());
    programs.emplace_back();
    for (int r = 0; r < nranks(); ++r) {
      Program p = calls[c].algorithm->program(request, r);
      if (!calls[c].direct.empty() && calls[c].direct[r]) p = without_staging(std::move(p), r, frames.back().chunks);
      if (options.mutate) options.mutate(static_cast<int>(c), r, p);
      max_lanes = std::max(max_lanes, p.lanes.size());
      for (const LinkEnd& e : p.out)
        links.add(r, e.peer, e.tag,
                  {.src = r, .dst = stands_for(e.peer), .nodes_ahead = cluster.node_of[e.peer] - cluster.node_of[r]});
      programs.back().push_back(std::move(p));
    }
  }
}

/// Gives the links that start at a rank their inboxes.
void CheckSetup::share_inboxes_of(int rank, const std::vector<CheckedCall>& calls) {
  std::map<const Algorithm*, std::vector<LinkEnd>> by_algorithm;
  for (size_t c = 0; c < calls.size(); ++c) {
    auto& ends = by_algorithm[calls[c].algorithm];
    ends.insert(ends.end(), programs[c][rank].out.begin(), programs[c][rank].out.end());
  }
  std::vector<std::vector<LinkEnd>> lists;
  for (auto& [algorithm, ends] : by_algorithm) lists.push_back(std::move(ends));
  std::map<std::pair<int, int>, std::vector<int>> links_of;  // by peer and number
  for (const auto& [end, number] : share_inboxes(lists))
    links_of[{end.peer, number}].push_back(links.find(rank, end.peer, end.tag));
  for (const auto& [key, together] : links_of) {
    for (const int link : together) {
      links[link].inbox = static_cast<int>(inboxes);
      for (const int other : together)
        if (other != link) links[link].sharing.push_back(other);
    }
    ++inboxes;
  }
}

void CheckSetup::resolve_links(size_t call, int rank) {
  for (const LinkEnd& e : programs[call][rank].out) out[call][rank].push_back(links.find(rank, e.peer, e.tag));
  for (const LinkEnd& e : programs[call][rank].in)
    in[call][rank].push_back(links.find(stands_for(e.peer), seen_from(e.peer, rank), e.tag));
}

void CheckSetup::number_threads() {
  for (const auto& ranks : cluster.nodes) width.push_back(max_lanes * ranks.size());
  links_from.resize(nranks());
  links_to.resize(nranks());
  if (fault) return;
  for (size_t i = 0; i < links.size(); ++i) {
    Link& l = links[static_cast<int>(i)];
    l.tx = static_cast<uint32_t>(width[cluster.node_of[l.src]]++);
    l.rx = static_cast<uint32_t>(width[cluster.node_of[l.dst]]++);
    links_from[l.src].push_back(static_cast<int>(i));
    links_to[l.dst].push_back(static_cast<int>(i));
  }
  for (Link& l : links) {
    l.tx_clock.resize(width[cluster.node_of[l.src]]);
    l.rx_clock.resize(width[cluster.node_of[l.dst]]);
  }
}

std::vector<std::vector<uint32_t>> CheckSetup::events_per_round() const {
  std::vector<std::vector<uint32_t>> events;
  for (const size_t threads : width) events.emplace_back(threads);
  for (int rank = 0; rank < nranks(); ++rank) {
    const auto& lanes = programs[0][rank].lanes;
    for (size_t l = 0; l < lanes.size(); ++l) {
      events[cluster.node_of[rank]][thread(rank, l)] = static_cast<uint32_t>(lanes[l].size());
      for (const Step& step : lanes[l]) {
        if (step.kind != StepKind::kPut) continue;
        const Link& link = links[out[0][rank][step.link]];
        ++events[cluster.node_of[link.src]][link.tx];
        ++events[cluster.node_of[link.dst]][link.rx];
      }
    }
  }
  return events;
}

}  // namespace twohop
