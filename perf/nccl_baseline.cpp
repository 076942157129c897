// See nccl_baseline.hpp.
#include "nccl_baseline.hpp"

#include <dlfcn.h>

namespace twohop::perf {
namespace {

template <class Function>
bool find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

std::variant<Nccl, std::string> Nccl::load() {
  constexpr const char* kFile = "libnccl.so.2";
  void* library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);  // stays: it has threads of its own
  if (!library) {
    const char* why = dlerror();
    return std::string(why ? why : "libnccl.so.2 cannot be loaded");
  }
  Nccl nccl;
  if (!find(library, "ncclGetUniqueId", &nccl.unique_id_) || !find(library, "ncclCommInitRank", &nccl.init_) ||
      !find(library, "ncclAllReduce", &nccl.all_reduce_) || !find(library, "ncclCommDestroy", &nccl.destroy_) ||
      !find(library, "ncclGetErrorString", &nccl.text_))
    return std::string(kFile) + " lacks a function that is needed";
  return nccl;
}

}  // namespace twohop::perf
