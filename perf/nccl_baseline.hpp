// NCCL beside ours (--baseline nccl): loaded at run time, so that neither the build nor other runs need it.
#pragma once

#include <cstddef>
#include <string>
#include <variant>

#include "twohop/twohop.h"

namespace twohop::perf {

/// Types and operations have NCCL's numbers in twohop.h.
class Nccl {
 public:
  using Comm = void*;
  struct UniqueId {
    char bytes[128];
  };

  /// The string says why it cannot be loaded.
  static std::variant<Nccl, std::string> load();

  int unique_id(UniqueId* id) const { return unique_id_(id); }
  int init(Comm* comm, int nranks, const UniqueId& id, int rank) const { return init_(comm, nranks, id, rank); }
  int all_reduce(const void* send, void* recv, size_t count, twohopDataType_t type, twohopRedOp_t op, Comm comm,
                 void* stream) const {
    return all_reduce_(send, recv, count, static_cast<int>(type), static_cast<int>(op), comm, stream);
  }
  void destroy(Comm comm) const { (void)destroy_(comm); }
  const char* text(int result) const { return text_(result); }

 private:
  int (*unique_id_)(UniqueId*) = nullptr;
  int (*init_)(Comm*, int, UniqueId, int) = nullptr;
  int (*all_reduce_)(const void*, void*, size_t, int, int, Comm, void*) = nullptr;
  int (*destroy_)(Comm) = nullptr;
  const char* (*text_)(int) = nullptr;
};

}  // namespace twohop::perf
