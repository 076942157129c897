// Registration of memory and the check of every key.
#include "softnic/memory.hpp"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "softnic/verbs_exports.hpp"

namespace softnic {
namespace {

constexpr unsigned kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING;

// Adapters refuse memory that is not there; they would have to pin it.
bool is_mapped(const void* address, size_t length) {
  uintptr_t begin = reinterpret_cast<uintptr_t>(address) & ~uintptr_t{kPageBytes - 1};
  uintptr_t end = reinterpret_cast<uintptr_t>(address) + length;
  unsigned char pages[4096];
  for (uintptr_t at = begin; at < end; at += sizeof pages * kPageBytes)
    if (mincore(reinterpret_cast<void*>(at), std::min<size_t>(end - at, sizeof pages * kPageBytes), pages) != 0)
      return false;
  return true;
}

SharedMr* take_mr(SharedState* state) {
  for (SharedMr& mr : state->mrs)
    if (mr.key.load() == 0 && mr.owner == 0) return &mr;
  return nullptr;
}

int check(LocalPd* pd, const void* address, size_t length, unsigned access) {
  if (access & ~kKnownAccess & ~unsigned{IBV_ACCESS_OPTIONAL_RANGE}) return EOPNOTSUPP;
  bool remote_writes = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
  if (length == 0 || (remote_writes && !(access & IBV_ACCESS_LOCAL_WRITE))) return EINVAL;
  if (!is_mapped(address, length)) return EFAULT;
  Process& process = *local<LocalContext>(pd->context)->owner;
  if (const int refused = process.refusal(Refusal::kRegMr)) return refused;
  return process.pin(length) ? 0 : ENOMEM;
}

uint32_t publish(Process& process, SharedMr* mr, const SharedMr& values) {
  auto index = static_cast<uint32_t>(mr - process.state()->mrs);
  mr->generation = (mr->generation + 1) % (1u << 17);
  mr->owner = process.slot() + 1;
  mr->pd = values.pd;
  mr->access = values.access;
  mr->address = values.address;
  mr->length = values.length;
  mr->iova = values.iova;
  mr->users.store(0);
  uint32_t key = (mr->generation + 1) * kMaxMrs + index;
  mr->key.store(key, std::memory_order_release);
  return key;
}

}  // namespace

std::optional<uint64_t> hold_memory(SharedState* state, const Access& access, uint64_t address, uint64_t length,
                                    MrHold* hold) {
  SharedMr& mr = state->mrs[access.key % kMaxMrs];
  if (access.key == 0 || mr.key.load() != access.key) return std::nullopt;
  mr.users.fetch_add(1);
  MrHold held(&mr);
  if (mr.key.load() != access.key) return std::nullopt;  // deregistered in between
  bool inside = address >= mr.iova && length <= mr.length && address - mr.iova <= mr.length - length;
  if (!inside || mr.owner != access.owner + 1 || mr.pd != access.pd || (mr.access & access.flags) != access.flags)
    return std::nullopt;
  *hold = std::move(held);
  return mr.address + (address - mr.iova);
}

ibv_mr* register_memory(ibv_pd* public_pd, void* address, size_t length, uint64_t iova, unsigned access) {
  auto* pd = local<LocalPd>(public_pd);
  Process& process = *local<LocalContext>(pd->context)->owner;
  if (int error = check(pd, address, length, access)) {
    errno = error;
    return nullptr;
  }
  std::lock_guard guard(process.state()->lock);
  SharedMr* slot = take_mr(process.state());
  if (!slot) {
    process.unpin(length);
    errno = ENOMEM;
    return nullptr;
  }
  SharedMr values{};
  values.pd = pd->id;
  values.access = access;
  values.address = reinterpret_cast<uint64_t>(address);
  values.length = length;
  values.iova = iova;
  auto* mr = new ibv_mr{pd->context, pd, address, length, 0, 0, 0};
  mr->lkey = mr->rkey = mr->handle = publish(process, slot, values);
  pd->users++;
  return mr;
}

int deregister_memory(ibv_mr* mr) {
  Process& process = *local<LocalContext>(mr->context)->owner;
  SharedMr& shared = process.state()->mrs[mr->lkey % kMaxMrs];
  shared.key.store(0);
  // A peer that was killed in the middle of a transfer never lets go.
  for (uint64_t deadline = now_ns() + 2'000'000'000;
       shared.users.load(std::memory_order_acquire) != 0 && now_ns() < deadline;)
    sched_yield();
  {
    std::lock_guard guard(process.state()->lock);
    shared.owner = 0;
  }
  process.unpin(mr->length);
  local<LocalPd>(mr->pd)->users--;
  delete mr;
  return 0;
}

}  // namespace softnic
