// See verbs_library.hpp.
#include "transport/verbs/verbs_library.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

namespace twohop::verbs {
namespace {

/// Looks functions up and remembers the first that is missing.
class Lookup {
 public:
  explicit Lookup(void* library) : library_(library) {}
  template <class F>
  void need(F*& function, const char* name) {
    want(function, name);
    if (!function && missing_.empty()) missing_ = name;
  }
  template <class F>
  void want(F*& function, const char* name) {
    function = reinterpret_cast<F*>(::dlsym(library_, name));
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

void look_up(Lookup& in, VerbsApi& a) {
  in.need(a.get_device_list, "ibv_get_device_list");
  in.need(a.free_device_list, "ibv_free_device_list");
  in.need(a.get_device_name, "ibv_get_device_name");
  in.need(a.open_device, "ibv_open_device");
  in.need(a.close_device, "ibv_close_device");
  in.need(a.query_device, "ibv_query_device");
  in.need(a.query_port, "ibv_query_port");
  in.need(a.query_gid, "ibv_query_gid");
  in.need(a.alloc_pd, "ibv_alloc_pd");
  in.need(a.dealloc_pd, "ibv_dealloc_pd");
  in.need(a.reg_mr, "ibv_reg_mr");
  in.need(a.dereg_mr, "ibv_dereg_mr");
  in.need(a.create_comp_channel, "ibv_create_comp_channel");
  in.need(a.destroy_comp_channel, "ibv_destroy_comp_channel");
  in.need(a.create_cq, "ibv_create_cq");
  in.need(a.destroy_cq, "ibv_destroy_cq");
  in.need(a.get_cq_event, "ibv_get_cq_event");
  in.need(a.ack_cq_events, "ibv_ack_cq_events");
  in.need(a.create_qp, "ibv_create_qp");
  in.need(a.modify_qp, "ibv_modify_qp");
  in.need(a.destroy_qp, "ibv_destroy_qp");
  in.need(a.get_async_event, "ibv_get_async_event");
  in.need(a.ack_async_event, "ibv_ack_async_event");
  in.need(a.wc_status_str, "ibv_wc_status_str");
  in.need(a.event_type_str, "ibv_event_type_str");
  in.want(a.reg_mr_iova2, "ibv_reg_mr_iova2");
  in.want(a.reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
  in.want(a.query_gid_ex, "_ibv_query_gid_ex");
}

}  // namespace

Result<std::shared_ptr<const VerbsLibrary>> VerbsLibrary::load(const std::string& file) {
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = ::dlerror();
    return make_error(twohopSystemError, "{} cannot be loaded ({}): install rdma-core's libibverbs and its providers",
                      file, why ? why : "no reason given");
  }
  auto library = std::make_shared<VerbsLibrary>();
  library->file_ = file;
  Lookup lookup(handle);
  look_up(lookup, library->api_);
  if (!lookup.missing().empty())
    return make_error(twohopSystemError, "{} has no function {}: it is not a usable libibverbs", file,
                      lookup.missing());
  return std::shared_ptr<const VerbsLibrary>(std::move(library));
}

Result<std::string> find_softnic() {
  namespace fs = std::filesystem;
  Dl_info self{};
  std::error_code ignored;
  fs::path at;
  if (::dladdr(reinterpret_cast<const void*>(&find_softnic), &self) != 0 && self.dli_fname)
    at = fs::canonical(self.dli_fname, ignored);
  std::string looked_in;
  // Built: build/<preset>/softnic; we are in the program or library somewhere below build/<preset>. Installed:
  // <libdir>/twohop/softnic; we are in <libdir>, or in a program beside it.
  for (fs::path dir = at.parent_path(); dir.has_relative_path(); dir = dir.parent_path()) {
    for (const char* place : {"softnic", "twohop/softnic", "lib/twohop/softnic"}) {
      const fs::path file = dir / place / kSystemLibrary;
      if (fs::exists(file, ignored)) return file.string();
    }
    looked_in += (looked_in.empty() ? "" : ", ") + dir.string();
  }
  return make_error(twohopInvalidArgument,
                    "TWOHOP_NET=softnic: no softnic/{} in {}: build the target softnic, or install twohop with it",
                    kSystemLibrary, looked_in);
}

}  // namespace twohop::verbs
