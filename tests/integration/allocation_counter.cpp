// Stands in for the C library's allocation functions, whose real ones glibc exports under __libc_ names.
#include "allocation_counter.hpp"

#include <cstddef>

namespace {
// Of this thread: what the library's service threads do after an init is not part of a call.
thread_local uint64_t count = 0;
}  // namespace

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

#define EXPORTED __attribute__((visibility("default")))
EXPORTED void* malloc(size_t bytes) noexcept {
  ++count;
  return __libc_malloc(bytes);
}
EXPORTED void* calloc(size_t n, size_t bytes) noexcept {
  ++count;
  return __libc_calloc(n, bytes);
}
EXPORTED void* realloc(void* old, size_t bytes) noexcept {
  ++count;
  return __libc_realloc(old, bytes);
}
EXPORTED void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  ++count;
  return __libc_memalign(alignment, bytes);
}
}

namespace twohop::test {
std::optional<uint64_t> allocations() {
  return count;
}
}  // namespace twohop::test
