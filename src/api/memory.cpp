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
#include "collectives/exec/gpu/gpu_regions.hpp"
#include "collectives/exec/gpu/gpu_runtime.hpp"

namespace twohop {
namespace {

/// Memory of the host, or of a GPU. Who holds `bytes` keeps it from being freed.
struct Allocation {
  std::shared_ptr<const size_t> bytes;
  std::unique_ptr<GpuMemory> gpu;
};

struct Allocations {
  std::mutex mutex;
  std::map<uintptr_t, Allocation> by_address;

  static Allocations& get() {
    static Allocations* all = new Allocations;  // never freed: other threads may free memory while we exit
    return *all;
  }
  void add(void* memory, size_t bytes, std::unique_ptr<GpuMemory> gpu) {
    const std::lock_guard lock(mutex);
    by_address[reinterpret_cast<uintptr_t>(memory)] = {std::make_shared<const size_t>(bytes), std::move(gpu)};
  }
};

/// Device memory; managed memory, which moves, is refused.
Result<bool> is_on_gpu(const void* buffer) {
  GpuRuntime* runtime = gpu_runtime();
  if (!runtime) return false;
  auto info = runtime->memory_info(buffer);
  if (!info) return info.error();
  if (info->kind == MemoryKind::kManaged)
    return make_error(twohopInvalidArgument, "buffer={} is managed memory, which moves: register host or device memory",
                      buffer);
  return info->kind == MemoryKind::kDevice;
}

/// All ranks of the node call it, and each waits for the others. `kept`: who calls holds the memory.
Result<uint64_t> register_on_gpu(twohopComm& comm, std::span<std::byte> memory, bool kept) {
  if (!comm.communicator->gpu())
    return make_error(twohopInvalidUsage, "buffer={} is device memory, and this communicator runs no calls on GPUs: {}",
                      static_cast<void*>(memory.data()), comm.communicator->why_no_gpu());
  if (Group::of_thread().open())
    return make_error(twohopInvalidUsage,
                      "device memory is registered by all ranks of a node together, which a group cannot wait for: "
                      "register it outside of groups");
  return comm.communicator->register_gpu_memory(memory, kept, comm.tickets.idle());
}

Result<> check_idle(const twohopComm& comm, const char* what) {
  return comm.tickets.idle() ? Result<>() : Result<>(calls_are_pending(what));
}

Result<uint64_t> register_on_host(twohopComm& comm, std::span<std::byte> memory) {
  if (auto ok = check_idle(comm, "registered"); !ok) return ok.error();
  return comm.communicator->register_memory(memory);
}

Result<> register_buffer(twohopComm_t comm, void* buffer, size_t bytes, void** handle) {
  if (auto ok = live_and_healthy(comm); !ok) return ok.error();
  if (!buffer) return null_argument("buffer", "the memory to register");
  if (!handle) return null_argument("handle", "a place for the handle");
  if (bytes == 0) return make_error(twohopInvalidArgument, "bytes=0: accepted are 1 and more");
  const std::span<std::byte> memory(static_cast<std::byte*>(buffer), bytes);
  auto on_gpu = is_on_gpu(buffer);
  if (!on_gpu) return on_gpu.error();
  auto token = hold_memory(buffer);  // so that nobody frees it meanwhile
  auto number = *on_gpu ? register_on_gpu(*comm, memory, token != nullptr) : register_on_host(*comm, memory);
  if (!number) return number.error();
  if (token) comm->held_memory[*number] = std::move(token);
  *handle = reinterpret_cast<void*>(static_cast<uintptr_t>(*number));
  return {};
}

Result<> deregister_number(twohopComm& comm, uint64_t number) {
  if (number > GpuRegions::kBeforeFirst && comm.communicator->gpu())
    return comm.communicator->deregister_gpu_memory(number, comm.tickets.idle());
  if (auto ok = check_idle(comm, "deregistered"); !ok) return ok;
  return comm.communicator->deregister_memory(number);
}

Result<> deregister_buffer(twohopComm_t comm, void* handle) {
  if (auto ok = live(comm); !ok) return ok.error();
  const auto number = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(handle));
  if (auto done = deregister_number(*comm, number); !done) return done;
  comm->held_memory.erase(number);
  return {};
}

}  // namespace

Result<void*> allocate_memory(size_t bytes) {
  if (bytes == 0) return make_error(twohopInvalidArgument, "bytes=0: accepted are 1 and more");
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return system_error(errno, "cannot allocate {} bytes of memory", bytes);
  (void)::madvise(memory, bytes, MADV_HUGEPAGE);  // fewer entries in the adapter's tables; a wish only
  Allocations::get().add(memory, bytes, nullptr);
  return memory;
}

Result<void*> allocate_device_memory(size_t bytes) {
  if (bytes == 0) return make_error(twohopInvalidArgument, "bytes=0: accepted are 1 and more");
  GpuRuntime* runtime = gpu_runtime();
  if (!runtime) return make_error(twohopInvalidUsage, "there is no GPU to allocate memory on: {}", cuda_status().why);
  auto device = runtime->current_device(true);
  if (!device) return device.error();
  auto made = runtime->make_segment(**device, bytes);
  if (!made) return made.error();
  void* memory = (*made)->data();
  Allocations::get().add(memory, bytes, std::move(*made));
  return memory;
}

Result<> free_memory(void* memory) {
  if (!memory) return {};
  Allocations& all = Allocations::get();
  const std::lock_guard lock(all.mutex);
  const auto it = all.by_address.find(reinterpret_cast<uintptr_t>(memory));
  if (it == all.by_address.end())
    return make_error(
        twohopInvalidArgument,
        "memory={:#x} is not the start of memory of twohopMemAlloc or twohopMemAllocDevice, or was freed already",
        reinterpret_cast<uintptr_t>(memory));
  if (it->second.bytes.use_count() > 1)
    return make_error(
        twohopInvalidUsage,
        "memory={:#x} ({} bytes) is still registered with a communicator: call twohopCommDeregister first", it->first,
        *it->second.bytes);
  if (!it->second.gpu) ::munmap(memory, *it->second.bytes);
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
  if (at - it->first >= *it->second.bytes) return nullptr;
  return it->second.bytes;
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

twohopResult_t twohopMemAllocDevice(void** memory, size_t bytes) {
  return twohop::guarded(__func__, nullptr, [&]() -> twohop::Result<> {
    if (!memory) return twohop::null_argument("memory", "a place for the address");
    auto made = twohop::allocate_device_memory(bytes);
    if (!made) return made.error();
    *memory = *made;
    return {};
  });
}

twohopResult_t twohopMemFree(void* memory) {
  return twohop::guarded(__func__, nullptr, [&] { return twohop::free_memory(memory); });
}
