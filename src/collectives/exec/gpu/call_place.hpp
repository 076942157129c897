// Does a call run on the host or on the GPU? That follows from its buffers and its stream.
#pragma once

#include "collectives/exec/communicator.hpp"

namespace twohop {

enum class CallPlace : uint8_t { kHost, kGpu };

/// The user's stream, as far as the caller knows it.
enum class StreamKind : uint8_t { kNull, kHostStream, kOther };

/// Memory that CUDA knows (device, managed, pinned) goes to the GPU, on a NULL stream too: that is CUDA's default
/// stream. A stream of twohopStreamCreate runs calls on pinned and managed memory on the host. Errors: device memory on
/// such a stream, of another GPU than the communicator's, beside ordinary memory, or without calls on GPUs.
/// A call of no elements goes by its stream alone, since ranks with nothing to give may pass any pointer.
/// Costs a load where there is no GPU.
Result<CallPlace> place_of(const Call& call, StreamKind stream, const Communicator& comm);

}  // namespace twohop
