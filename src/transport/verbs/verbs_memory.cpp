// Which memory do the rails know? Windows and inboxes for good, the user's while it is registered; and the region that
// a put's bytes lie in.
#include <algorithm>

#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

bool begins_before(const MemoryRegion& r, const void* at) {
  return reinterpret_cast<uintptr_t>(r->addr) <= reinterpret_cast<uintptr_t>(at);
}

/// Where the first region lies that begins behind `at`.
std::vector<MemoryRegion>::iterator behind(std::vector<MemoryRegion>& regions, const void* at) {
  return std::partition_point(regions.begin(), regions.end(),
                              [&](const MemoryRegion& r) { return begins_before(r, at); });
}

}  // namespace

/// Few regions are the transport's; the user's are disjoint and sorted.
const MemoryRegion* VerbsEndpoint::find_region(const Rail& rail, const void* at, size_t bytes) const {
  for (const MemoryRegion& r : rail.regions)
    if (r.contains(at, bytes)) return &r;
  const auto next = std::partition_point(rail.user_regions.begin(), rail.user_regions.end(),
                                         [&](const MemoryRegion& r) { return begins_before(r, at); });
  if (next == rail.user_regions.begin() || !std::prev(next)->contains(at, bytes)) return nullptr;
  return &*std::prev(next);
}

/// On all rails or on none. A refusal is the caller's error and no end of the connection.
Result<> VerbsEndpoint::register_user_memory(std::span<std::byte> memory) {
  std::vector<MemoryRegion> made;
  for (Rail& rail : rails_) {
    auto region = register_on(rail, memory);
    if (!region) {
      counters_.registered_bytes -= made.size() * memory.size();
      return region.error();
    }
    made.push_back(std::move(*region));
  }
  for (size_t r = 0; r < rails_.size(); ++r) {
    auto& regions = rails_[r].user_regions;
    regions.insert(behind(regions, memory.data()), std::move(made[r]));
  }
  return {};
}

void VerbsEndpoint::deregister_user_memory(std::span<std::byte> memory) {
  for (Rail& rail : rails_) {
    auto& regions = rail.user_regions;
    const auto next = behind(regions, memory.data());
    if (next == regions.begin() || (*std::prev(next))->addr != memory.data()) continue;
    regions.erase(std::prev(next));
    counters_.registered_bytes -= memory.size();
  }
}

}  // namespace twohop::verbs
