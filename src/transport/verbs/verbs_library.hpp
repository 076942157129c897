// Where the verbs functions come from: libibverbs, or another library with its interface, loaded at run time, so that
// twohop also runs where rdma-core is missing. Nothing here opens a device.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>

#include "base/result.hpp"

// They are macros around inline functions that refer to symbols which we do not link.
#undef ibv_query_port
#undef ibv_reg_mr

namespace twohop::verbs {

/// The functions that are not inline in the header. post_send, post_recv, poll_cq and req_notify_cq are: they go
/// through the context's own table.
struct VerbsApi {
  ibv_device** (*get_device_list)(int*) = nullptr;
  void (*free_device_list)(ibv_device**) = nullptr;
  const char* (*get_device_name)(ibv_device*) = nullptr;
  ibv_context* (*open_device)(ibv_device*) = nullptr;
  int (*close_device)(ibv_context*) = nullptr;
  int (*query_device)(ibv_context*, ibv_device_attr*) = nullptr;
  int (*query_port)(ibv_context*, uint8_t, _compat_ibv_port_attr*) = nullptr;
  int (*query_gid)(ibv_context*, uint8_t, int, ibv_gid*) = nullptr;
  ibv_pd* (*alloc_pd)(ibv_context*) = nullptr;
  int (*dealloc_pd)(ibv_pd*) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd*, void*, size_t, int) = nullptr;
  int (*dereg_mr)(ibv_mr*) = nullptr;
  ibv_comp_channel* (*create_comp_channel)(ibv_context*) = nullptr;
  int (*destroy_comp_channel)(ibv_comp_channel*) = nullptr;
  ibv_cq* (*create_cq)(ibv_context*, int, void*, ibv_comp_channel*, int) = nullptr;
  int (*destroy_cq)(ibv_cq*) = nullptr;
  int (*get_cq_event)(ibv_comp_channel*, ibv_cq**, void**) = nullptr;
  void (*ack_cq_events)(ibv_cq*, unsigned) = nullptr;
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*) = nullptr;
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int) = nullptr;
  int (*destroy_qp)(ibv_qp*) = nullptr;
  int (*get_async_event)(ibv_context*, ibv_async_event*) = nullptr;
  void (*ack_async_event)(ibv_async_event*) = nullptr;
  const char* (*wc_status_str)(ibv_wc_status) = nullptr;
  const char* (*event_type_str)(ibv_event_type) = nullptr;
  // Newer than the rest; null where the library lacks them.
  ibv_mr* (*reg_mr_iova2)(ibv_pd*, void*, size_t, uint64_t, unsigned) = nullptr;
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd*, uint64_t, size_t, uint64_t, int, int) = nullptr;
  int (*query_gid_ex)(ibv_context*, uint32_t, uint32_t, ibv_gid_entry*, uint32_t, size_t) = nullptr;
};

/// A loaded library. It stays loaded until the process ends: providers leave threads and handlers behind.
class VerbsLibrary {
 public:
  /// `file` as for dlopen(). The error says why it does not load or which function it lacks.
  static Result<std::shared_ptr<const VerbsLibrary>> load(const std::string& file);

  const VerbsApi& api() const { return api_; }
  const std::string& file() const { return file_; }

 private:
  VerbsApi api_;
  std::string file_;
};

/// libibverbs as rdma-core installs it.
constexpr const char* kSystemLibrary = "libibverbs.so.1";

/// The emulated device's library, which is built and installed beside this one; the error lists where it was looked
/// for.
Result<std::string> find_softnic();

}  // namespace twohop::verbs
