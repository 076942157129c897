// Structs of the API that carry their own size, so that programs compiled against another version can be told apart.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/result.hpp"

namespace twohop {

constexpr size_t kMaxStructSize = 4096;  // more is a struct that was never initialised

inline Result<> check_struct_size(const char* name, size_t size, size_t first_size, const char* next_step) {
  if (size >= first_size && size <= kMaxStructSize) return {};
  return make_error(twohopInvalidArgument, "{}.size={}: accepted are {} to {}; {}", name, size, first_size,
                    kMaxStructSize, next_step);
}

/// Whether the bytes of a caller's larger struct that lie past `known` are all zero.
inline bool rest_is_zero(const void* object, size_t size, size_t known) {
  const char* bytes = static_cast<const char*>(object);
  return size <= known || std::all_of(bytes + known, bytes + size, [](char b) { return b == 0; });
}

}  // namespace twohop
