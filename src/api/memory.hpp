// Memory that twohopMemAlloc and twohopMemAllocDevice gave out: who still uses it.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.hpp"

namespace twohop {

/// Page-aligned memory of this process. While somebody holds a token of it, it cannot be freed.
Result<void*> allocate_memory(size_t bytes);
/// Of the GPU that is current in this thread; other processes can map it.
Result<void*> allocate_device_memory(size_t bytes);
Result<> free_memory(void* memory);
/// Null when the address lies in no such memory.
std::shared_ptr<const void> hold_memory(const void* address);

}  // namespace twohop
