// CopyEngine: a GPU's hardware that copies between its memory and pinned host memory, as the progress thread uses it
// beside running kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"

namespace twohop {

/// One thread at a time. Nothing here waits for a kernel, or allocates: kernels may be waiting for the copy.
class CopyEngine {
 public:
  CopyEngine() = default;
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;
  virtual ~CopyEngine() = default;  // once no copy is under way

  /// Starts a copy that runs after those started before; returns at once.
  virtual Result<> copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  /// How many of the copies are complete, in the order in which they were started: whoever learns of it sees the bytes.
  virtual Result<uint64_t> completed() = 0;
  /// Until none is under way, because it is complete or has failed.
  virtual void wait() = 0;
};

}  // namespace twohop
