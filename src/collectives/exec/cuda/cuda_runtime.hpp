// CudaRuntime: GpuRuntime by the CUDA runtime and, for memory that ranks share, the driver.
#pragma once

#include <cuda_runtime_api.h>

#include "collectives/exec/gpu/gpu_runtime.hpp"
#include "device/cuda/on_device.hpp"

namespace twohop {

class CudaRuntime : public GpuRuntime {
 public:
  Result<MemoryInfo> memory_info(const void* address) override;
  Result<std::optional<int>> current_device(bool wake) override;
  Result<std::string> device_identity(int device) override;
  Result<> check_peer_access(int device, std::span<const std::string> peers) override;
  Result<std::unique_ptr<GpuMemory>> device_memory(int device, size_t bytes) override;
  Result<std::unique_ptr<GpuMemory>> host_memory(int device, size_t bytes) override;
  Result<std::unique_ptr<GpuMemory>> make_segment(int device, size_t bytes) override;
  Result<std::unique_ptr<GpuMemory>> map_segment(int device, std::vector<Fd> fds, size_t bytes) override;
  Result<std::unique_ptr<GpuMemory>> share_memory(int device, const void* address) override;
  Result<Fd> dma_buf(int device, std::span<std::byte> segment) override;
  Result<std::shared_ptr<void>> pin(int device, std::span<std::byte> memory) override;
  Result<> upload(int device, std::byte* to, const void* from, size_t bytes) override;
  Result<std::unique_ptr<CopyEngine>> make_copy_engine(int device) override;
  Result<std::unique_ptr<GpuLauncher>> make_launcher(int device) override;
  Result<std::function<Result<>()>> remote_writes_flush(int device, bool for_all_gpus) override;
};

}  // namespace twohop
