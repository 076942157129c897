// See call_place.hpp.
#include "collectives/exec/gpu/call_place.hpp"

#include "collectives/exec/gpu/gpu_runtime.hpp"

namespace twohop {
namespace {

struct Buffer {
  const char* name = "";
  const void* address = nullptr;
  MemoryInfo info;
};

Error no_gpu(const Buffer& b, const Communicator& comm) {
  return make_error(twohopInvalidUsage, "{}={} is {} of GPU {}, and this communicator runs no calls on GPUs: {}",
                    b.name, b.address, memory_kind_name(b.info.kind), b.info.device, comm.why_no_gpu());
}

Error wrong_gpu(const Buffer& b, int device) {
  return make_error(twohopInvalidArgument,
                    "{}={} is memory of GPU {}, and the communicator's is GPU {}, which was current when it was made",
                    b.name, b.address, b.info.device, device);
}

/// Where the call can run, of the two buffers that say something.
Result<CallPlace> place_of(const Buffer& a, const Buffer& b, StreamKind stream, const Communicator& comm) {
  const auto is = [&](MemoryKind kind) { return a.info.kind == kind || b.info.kind == kind; };
  if (a.info.kind == MemoryKind::kHost && b.info.kind == MemoryKind::kHost) return CallPlace::kHost;
  const Buffer& on_device = a.info.kind == MemoryKind::kDevice ? a : b;
  if (is(MemoryKind::kDevice)) {
    if (!comm.gpu()) return no_gpu(on_device, comm);
    if (stream == StreamKind::kHostStream)
      return make_error(twohopInvalidArgument,
                        "{}={} is device memory, and the stream is one of twohopStreamCreate: pass a cudaStream_t, or "
                        "NULL for the default stream",
                        on_device.name, on_device.address);
  } else if (!comm.gpu() || stream == StreamKind::kHostStream) {
    return CallPlace::kHost;
  }
  for (const Buffer* buffer : {&a, &b}) {
    if (buffer->info.kind == MemoryKind::kHost)
      return make_error(twohopInvalidArgument,
                        "{}={} is memory that CUDA does not know, and {}={} is {}: a call needs both on the host or "
                        "both where the GPU reaches them (cudaMallocHost, cudaHostRegister)",
                        buffer->name, buffer->address, buffer == &a ? b.name : a.name,
                        buffer == &a ? b.address : a.address,
                        memory_kind_name(buffer == &a ? b.info.kind : a.info.kind));
    if (buffer->info.kind == MemoryKind::kDevice && buffer->info.device != comm.gpu()->device())
      return wrong_gpu(*buffer, comm.gpu()->device());
  }
  return CallPlace::kGpu;
}

}  // namespace

Result<CallPlace> place_of(const Call& call, StreamKind stream, const Communicator& comm) {
  GpuRuntime* runtime = gpu_runtime();
  if (!runtime) return CallPlace::kHost;
  if (call.count == 0) return stream == StreamKind::kOther && comm.gpu() ? CallPlace::kGpu : CallPlace::kHost;
  Buffer send{"send", call.send, {}}, recv{"recv", call.recv, {}};
  // Others than the root pass a send buffer that nobody reads.
  if (call.collective == Collective::kBroadcast && call.root != comm.rank()) send = recv;
  for (Buffer* buffer : {&send, &recv}) {
    auto info = runtime->memory_info(buffer->address);
    if (!info) return info.error();
    buffer->info = *info;
  }
  return place_of(send, recv, stream, comm);
}

}  // namespace twohop
