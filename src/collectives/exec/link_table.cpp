// See link_table.hpp.
#include "collectives/exec/link_table.hpp"

#include <algorithm>

#include "collectives/plan/inbox_sharing.hpp"

namespace twohop {
namespace {

size_t find(const std::vector<LinkId>& links, const LinkId& id) {
  return static_cast<size_t>(std::find(links.begin(), links.end(), id) - links.begin());
}

/// Appends one inbox number for each end of one channel: a new one wherever the inbox or the peer is another.
void number_inboxes(const std::vector<SharingEnd>& ends, std::vector<uint32_t>& numbers) {
  uint32_t next = numbers.empty() ? 0 : numbers.back() + 1;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (i > 0 && (ends[i].inbox != ends[i - 1].inbox || ends[i].end.peer != ends[i - 1].end.peer)) ++next;
    numbers.push_back(next);
  }
}

}  // namespace

size_t LinkTable::find_out(const LinkId& id) const {
  return find(out, id);
}
size_t LinkTable::find_in(const LinkId& id) const {
  return find(in, id);
}

LinkTable::Range LinkTable::sharing_with(size_t out_link) const {
  const auto [from, to] = std::equal_range(out_inbox.begin(), out_inbox.end(), out_inbox[out_link]);
  return {static_cast<uint32_t>(from - out_inbox.begin()), static_cast<uint32_t>(to - from)};
}

LinkTable links_of(std::span<const Algorithm* const> algorithms, const Cluster& cluster, int rank, int channels) {
  std::vector<std::vector<LinkEnd>> out(algorithms.size()), in(algorithms.size());
  for (size_t i = 0; i < algorithms.size(); ++i)
    for (Collective c : kCollectives) {
      if (!algorithms[i]->supports(cluster, c)) continue;
      const Program p = algorithms[i]->program({&cluster, c, 0, {}}, rank);
      out[i].insert(out[i].end(), p.out.begin(), p.out.end());
      in[i].insert(in[i].end(), p.in.begin(), p.in.end());
    }
  const auto shared_out = share_inboxes(out), shared_in = share_inboxes(in);
  LinkTable table;
  for (int channel = 0; channel < channels; ++channel) {
    const auto c = static_cast<uint16_t>(channel);
    for (const SharingEnd& s : shared_out) table.out.push_back({c, s.end.tag, rank, s.end.peer});
    for (const SharingEnd& s : shared_in) table.in.push_back({c, s.end.tag, s.end.peer, rank});
    number_inboxes(shared_out, table.out_inbox);
    number_inboxes(shared_in, table.in_inbox);
  }
  return table;
}

WindowMap window_map(const Cluster& cluster, const LayoutLimits& limits) {
  WindowMap map;
  map.channels = static_cast<size_t>(limits.max_channels);
  map.lanes = static_cast<size_t>(max_lanes(cluster));
  map.window_bytes = limits.window_bytes;
  map.inbox_bytes = limits.inbox_bytes;
  return map;
}

}  // namespace twohop
