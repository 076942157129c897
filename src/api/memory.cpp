// Memory for the network, and its registration with a communicator: from the C functions to the communicator.
#include "api/memory.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>

#include "api/comm_handle.hpp"
#include "api/error.hpp"
#include "api/group.hpp"
#include "collectives/exec/gpu/gpu_runtime.hpp"

namespace twohop {
namespace {

struct Allocations {
  std::mutex mutex;
  std::map<uintptr_t, std::shared_ptr<const size_t>> by_address;  // bytes

  static Allocations& get() {
    static Allocations* all = new Allocations;  // never freed: other threads may free memory while we exit
    return *all;
  }
};

/// Calls on GPUs stage what they send, and what the host would register of it could be gone, or another's, unnoticed.
Result<> check_not_on_gpu(const void* buffer) {
  GpuRuntime* runtime = gpu_runtime();
  if (!runtime) return {};
  auto info = runtime->memory_info(buffer);
  if (!info) return info.error();
  if (info->kind != MemoryKind::kDevice && info->kind != MemoryKind::kManaged) return {};
  return make_error(twohopInvalidArgument,
                    "buffer={} is {}: only host memory is registered, calls on GPUs stage what they send", buffer,
                    memory_kind_name(info->kind));
}

Result<> check_idle(twohopComm_t comm, const char* what) {
  if (comm->tickets.idle()) return {};
  return make_error(twohopInvalidUsage,
                    "memory is {} while calls of this communicator are pending: synchronize its streams first", what);
}

Result<> register_buffer(twohopComm_t comm, void* buffer, size_t bytes, void** handle) {
  if (auto ok = live_and_healthy(comm); !ok) return ok.error();
  if (!buffer) return null_argument("buffer", "the memory to register");
  if (!handle) return null_argument("handle", "a place for the handle");
  if (bytes == 0) return make_error(twohopInvalidArgument, "bytes=0: accepted are 1 and more");
  if (auto ok = check_not_on_gpu(buffer); !ok) return ok;
  if (auto ok = check_idle(comm, "registered"); !ok) return ok;
  auto number = comm->communicator->register_memory({static_cast<std::byte*>(buffer), bytes});
  if (!number) return number.error();
  if (auto token = hold_memory(buffer)) comm->held_memory[*number] = std::move(token);
  *handle = reinterpret_cast<void*>(static_cast<uintptr_t>(*number));
  return {};
}

Result<> deregister_buffer(twohopComm_t comm, void* handle) {
  if (auto ok = live(comm); !ok) return ok.error();
  if (auto ok = check_idle(comm, "deregistered"); !ok) return ok;
  const auto number = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(handle));
  if (auto ok = comm->communicator->deregister_memory(number); !ok) return ok;
  comm->held_memory.erase(number);
  return {};
}

}  // namespace

Result<void*> allocate_memory(size_t bytes) {
  if (bytes == 0) return make_error(twohopInvalidArgument, "bytes=0: accepted are 1 and more");
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return system_error(errno, "cannot allocate {} bytes of memory", bytes);
  (void)::madvise(memory, bytes, MADV_HUGEPAGE);  // fewer entries in the adapter's tables; a wish only
  Allocations& all = Allocations::get();
  const std::lock_guard lock(all.mutex);
  all.by_address[reinterpret_cast<uintptr_t>(memory)] = std::make_shared<const size_t>(bytes);
  return memory;
}

Result<> free_memory(void* memory) {
  if (!memory) return {};
  Allocations& all = Allocations::get();
  const std::lock_guard lock(all.mutex);
  const auto it = all.by_address.find(reinterpret_cast<uintptr_t>(memory));
  if (it == all.by_address.end())
    return make_error(twohopInvalidArgument,
                      "memory={:#x} is not the start of memory of twohopMemAlloc, or was freed already",
                      reinterpret_cast<uintptr_t>(memory));
  if (it->second.use_count() > 1)
    return make_error(
        twohopInvalidUsage,
        "memory={:#x} ({} bytes) is still registered with a communicator: call twohopCommDeregister first", it->first,
        *it->second);
  ::munmap(memory, *it->second);
  all.by_address.erase(it);
  return {};
}

std::shared_ptr<const void> hold_memory(const void* address) {
  Allocations& all = Allocations::get();
  const std::lock_guard lock(all.mutex);
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto it = all.by_address.upper_bound(at);
  if (it == all.by_address.begin()) return nullptr;
  --it;
  if (at - it->first >= *it->second) return nullptr;
  return it->second;
}

}  // namespace twohop

twohopResult_t twohopCommRegister(twohopComm_t comm, void* buffer, size_t bytes, void** handle) {
  return twohop::guarded(__func__, comm, [&] { return twohop::register_buffer(comm, buffer, bytes, handle); });
}

twohopResult_t twohopCommDeregister(twohopComm_t comm, void* handle) {
  return twohop::guarded(__func__, comm, [&] { return twohop::deregister_buffer(comm, handle); });
}

twohopResult_t twohopMemAlloc(void** memory, size_t bytes) {
  return twohop::guarded(__func__, nullptr, [&]() -> twohop::Result<> {
    if (!memory) return twohop::null_argument("memory", "a place for the address");
    auto made = twohop::allocate_memory(bytes);
    if (!made) return made.error();
    *memory = *made;
    return {};
  });
}

twohopResult_t twohopMemFree(void* memory) {
  return twohop::guarded(__func__, nullptr, [&] { return twohop::free_memory(memory); });
}
