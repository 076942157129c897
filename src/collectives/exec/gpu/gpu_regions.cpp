// See gpu_regions.hpp.
#include "collectives/exec/gpu/gpu_regions.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "collectives/exec/loop/loop_call.hpp"

namespace twohop {
Result<std::shared_ptr<GpuRegions>> GpuRegions::create(GpuRuntime& runtime, int device, GpuMeetingPlace place,
                                                       bool read_by_others) {
  const size_t locals = place.members.ranks.size();
  std::shared_ptr<GpuRegions> made(new GpuRegions(runtime, device, std::move(place)));
  made->regions_.resize(kMostRegions);
  if (!read_by_others || locals == 1) return made;
  auto table = runtime.device_memory(device, kMostRegions * locals * sizeof(std::byte*));
  if (!table) return table.error();
  made->table_ = std::move(*table);
  return made;
}

size_t GpuRegions::first_free() const {
  const auto it = std::find_if(regions_.begin(), regions_.end(), [](const Region& r) { return r.number == 0; });
  return static_cast<size_t>(it - regions_.begin());
}

Result<uint64_t> GpuRegions::add(std::span<std::byte> memory, bool kept, bool idle) {
  const size_t at = first_free();
  Region region;
  auto mine = at == kMostRegions
                  ? Result<>(make_error(twohopInvalidUsage,
                                        "{} ranges of device memory are registered already, the most there can "
                                        "be: deregister what is not used any more",
                                        kMostRegions))
                  : prepare(region, memory, kept, idle);
  if (table_) {
    if (auto all = agree(kRegister, at, mine); !all) mine = all;
    if (mine) {
      mine = swap(region, at);
      auto all = agree(kRegister, at, mine);
      if (!all) {
        // Everyone drops what he mapped before the owner may free it.
        (void)write_row(at, std::vector<std::byte*>(place_.members.ranks.size()));
        region.others.clear();
        if (all.error().scope != Scope::kCommunicator)
          if (auto dropped = agree(kRegister, at, all); dropped.error().scope == Scope::kCommunicator) all = dropped;
        mine = all;
      }
    }
  }
  if (!mine) {
    if (region.number != 0) registrations_.remove(region.number);
    return mine.error();
  }
  const uint64_t number = region.number;
  regions_[at] = std::move(region);
  log_debug("GPU {}: {} bytes at {} are registered, {}", device_, memory.size(), static_cast<void*>(memory.data()),
            table_ ? "for the other ranks of the node to read" : "which changes nothing: no other rank reads them");
  return number;
}

/// What a rank can do of it by itself.
Result<> GpuRegions::prepare(Region& region, std::span<std::byte> memory, bool kept, bool idle) {
  if (!idle) return calls_are_pending("registered");
  auto info = runtime_.memory_info(memory.data());
  if (!info) return info.error();
  if (info->device != device_)
    return make_error(twohopInvalidArgument, "buffer={} is memory of GPU {}, and the communicator's is GPU {}",
                      static_cast<void*>(memory.data()), info->device, device_);
  if (info->allocation_id == 0 && !kept)
    return make_error(
        twohopInvalidArgument,
        "buffer={} lies in an allocation that CUDA does not number (of a pool, or mapped by cuMemMap), so "
        "that its end would not be noticed: use memory of twohopMemAllocDevice or cudaMalloc",
        static_cast<void*>(memory.data()));
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  if (info->bytes != 0 && (memory.size() > info->bytes || begin - info->base > info->bytes - memory.size()))
    return make_error(twohopInvalidArgument, "buffer={:#x} ({} bytes) runs past the end of its allocation of {} bytes",
                      begin, memory.size(), info->bytes);
  auto number = registrations_.add(memory);
  if (!number) return number.error();
  region.number = *number;
  region.allocation_id = kept ? 0 : info->allocation_id;
  region.held = std::make_shared<int>();
  if (!table_) return {};
  auto own = runtime_.share_memory(device_, memory.data());
  if (!own) return own.error();
  region.own = std::move(*own);
  if (static_cast<size_t>(memory.data() - region.own->data()) + memory.size() > region.own->size())
    return make_error(twohopInvalidArgument, "buffer={:#x} ({} bytes) runs past the end of its allocation of {} bytes",
                      begin, memory.size(), region.own->size());
  return {};
}

/// Hands the region to the other ranks of the node and maps theirs.
Result<> GpuRegions::swap(Region& region, size_t at) {
  auto fds = region.own->export_fds();
  if (!fds) return fds.error();
  std::vector<int> given;
  for (const Fd& fd : *fds) given.push_back(fd.get());
  const NodeMembers& m = place_.members;
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  auto peers = place_.exchange->exchange(m.me, m.others(), given, place_.secret, deadline);
  if (!peers) return peers.error();
  std::vector<std::byte*> seen(m.ranks.size());
  for (LocalPeer& peer : *peers) {
    if (peer.fds.empty()) return make_error(twohopRemoteError, "rank {}: {}", peer.rank, peer.failure);
    auto mapped = runtime_.map_segment(device_, std::move(peer.fds), 1);
    if (!mapped) return mapped.error();
    seen[m.index_of(peer.rank)] = (*mapped)->data();
    region.others.push_back(std::move(*mapped));
  }
  return write_row(at, seen);
}

/// Where this GPU sees a region of each rank of the node; null: nowhere.
Result<> GpuRegions::write_row(size_t at, const std::vector<std::byte*>& seen) {
  const size_t bytes = seen.size() * sizeof(std::byte*);
  return runtime_.upload(device_, table_->data() + at * bytes, seen.data(), bytes);
}

/// This rank's error where it has one; else one that names the rank that has.
Result<> GpuRegions::agree(Kind kind, size_t at, const Result<>& mine) {
  auto met = meeting_.meet({kind, static_cast<uint16_t>(at)}, mine.has_value());
  if (!met) return met.error();
  if (!mine || *met < 0) return mine;
  return make_error(
      twohopInvalidUsage,
      "rank {} does not {} GPU memory with this rank, or could not; its own error says why. All ranks of a "
      "node do so together, in the same order",
      *met, kind == kRegister ? "register" : "deregister");
}

Result<> GpuRegions::remove(uint64_t number, bool idle) {
  if (auto memory = registrations_.find(number); !memory) return memory.error();
  const auto it = std::find_if(regions_.begin(), regions_.end(), [&](const Region& r) { return r.number == number; });
  Result<> mine = idle ? Result<>() : Result<>(calls_are_pending("deregistered"));
  if (it->held.use_count() > 1)
    mine = make_error(twohopInvalidUsage,
                      "the memory is still used by a captured call: destroy the graphs that hold it before it is "
                      "deregistered");
  const auto at = static_cast<size_t>(it - regions_.begin());
  if (table_)
    if (auto all = agree(kDeregister, at, mine); !all) mine = all;
  if (!mine) return mine;
  if (table_) mine = write_row(at, std::vector<std::byte*>(place_.members.ranks.size()));
  it->others.clear();
  // Only then may the owner free it.
  const auto dropped = table_ ? agree(kDeregister, at, {}) : Result<>();
  *it = Region();
  registrations_.remove(number);
  return dropped ? mine : dropped;
}

uint64_t GpuRegions::find(const void* at, uint64_t bytes) {
  if (!table_ || !registrations_.covers(at, bytes)) return 0;
  const uint64_t number = registrations_.number_of(at);
  const auto it = std::find_if(regions_.begin(), regions_.end(), [&](const Region& r) { return r.number == number; });
  if (it->stale) return 0;
  if (it->allocation_id != 0) {
    auto info = runtime_.memory_info(at);
    if (!info || info->allocation_id != it->allocation_id) {
      it->stale = true;
      log_warn(
          "GPU {}: the registered memory at {} was freed and its address is used for something else: it is staged "
          "from now on. Deregister memory before it is freed",
          device_, at);
      return 0;
    }
  }
  return direct_word(static_cast<uint64_t>(it - regions_.begin()),
                     static_cast<uint64_t>(static_cast<const std::byte*>(at) - it->own->data()));
}

std::shared_ptr<void> GpuRegions::hold(uint64_t direct) const {
  return direct == 0 ? nullptr : regions_[(direct >> kDirectOffsetBits) - 1].held;
}

}  // namespace twohop
