// How many times has this thread asked for memory? Counted by standing in for malloc; see allocation_counter.cpp.
#pragma once

#include <cstdint>
#include <optional>

namespace twohop::test {

/// Calls of malloc, calloc, realloc and aligned allocation so far by this thread, whoever makes them; empty in
/// sanitizer builds, whose own malloc must not be replaced.
std::optional<uint64_t> allocations();

}  // namespace twohop::test
