// What has to be done before kernels may read what a NIC wrote to a GPU? What CUDA's attributes say of the device
// decides, and who reads: its own kernels only, or those of the other GPUs of the node too.
#pragma once

#include <cuda_runtime_api.h>

namespace twohop {

enum class RemoteWrites { kVisible, kNeedFlush, kCannotBeFlushed };

/// `ordering`, `options`: cudaDevAttrGPUDirectRDMAWritesOrdering and ...FlushWritesOptions.
constexpr RemoteWrites remote_writes(int ordering, int options, bool for_all_gpus) {
  const int needed = for_all_gpus ? cudaGPUDirectRDMAWritesOrderingAllDevices : cudaGPUDirectRDMAWritesOrderingOwner;
  if (ordering >= needed) return RemoteWrites::kVisible;
  return (options & cudaFlushGPUDirectRDMAWritesOptionHost) != 0 ? RemoteWrites::kNeedFlush
                                                                 : RemoteWrites::kCannotBeFlushed;
}

}  // namespace twohop
