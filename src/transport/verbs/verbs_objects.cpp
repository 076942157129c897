// See verbs_objects.hpp. Who fails first here knows the cause: every message names the object, the sizes and the next
// step.
#include "transport/verbs/verbs_objects.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

namespace twohop::verbs {
namespace {

/// Keeps several objects alive.
template <class... T>
std::shared_ptr<const void> all_of(std::shared_ptr<T>... objects) {
  return std::make_shared<std::tuple<std::shared_ptr<T>...>>(std::move(objects)...);
}

/// Counts one up while it lives.
std::shared_ptr<const void> token(const std::shared_ptr<Context>& context, std::atomic<int> DeviceUse::*kind) {
  ++(context->use().*kind);
  return {context.get(), [context, kind](const void*) { --(context->use().*kind); }};
}

std::string open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return "unknown";
  std::error_code failed;
  const std::filesystem::directory_iterator files("/proc/self/fd", failed);
  return fmt::format("{} files are open, the limit (RLIMIT_NOFILE) is {}",
                     failed ? "?" : fmt::format("{}", std::distance(begin(files), end(files))), limit.rlim_cur);
}

std::string memlock_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{} bytes", limit.rlim_cur);
}

std::string advice_for_registration(int sys_errno) {
  switch (sys_errno) {
    case ENOMEM:
    case EPERM:
      return "raise it: ulimit -l unlimited, in /etc/security/limits.conf, LimitMEMLOCK of the unit or --ulimit "
             "memlock "
             "of the container";
    case EFAULT:
      return "the device cannot pin this memory: it is not mapped readable and writable";
    default:
      return "look at the kernel's log";
  }
}

/// The flags of the first try; without relaxed ordering in the second.
ibv_mr* register_with(const VerbsApi& api, ibv_pd* pd, std::span<std::byte> m, RelaxedOrdering ordering,
                      unsigned remote_access) {
  const unsigned access = IBV_ACCESS_LOCAL_WRITE | remote_access;
  if (ordering != RelaxedOrdering::kOff && api.reg_mr_iova2)
    return api.reg_mr_iova2(pd, m.data(), m.size(), reinterpret_cast<uintptr_t>(m.data()),
                            access | unsigned{IBV_ACCESS_RELAXED_ORDERING});
  return api.reg_mr(pd, m.data(), m.size(), static_cast<int>(access));
}

}  // namespace

Result<std::shared_ptr<Context>> Context::open(std::shared_ptr<const VerbsLibrary> library, ibv_device* device) {
  const std::string name = library->api().get_device_name(device);
  ibv_context* raw = library->api().open_device(device);
  if (!raw)
    return system_error(errno,
                        "cannot open RDMA device {}: are /dev/infiniband/uverbs* there and accessible (in a container "
                        "pass --device /dev/infiniband)",
                        name);
  return std::shared_ptr<Context>(new Context(raw, std::move(library)));
}

std::string Context::use_of_limits() const {
  ibv_device_attr limits{};
  if (api().query_device(get(), &limits) != 0) limits = {};
  return fmt::format("{} queue pairs of {}, {} completion queues of {}, {} memory regions of {}", use().qps.load(),
                     limits.max_qp, use().cqs.load(), limits.max_cq, use().mrs.load(), limits.max_mr);
}

Result<std::shared_ptr<ProtectionDomain>> ProtectionDomain::create(std::shared_ptr<Context> context) {
  ibv_pd* raw = context->api().alloc_pd(context->get());
  if (!raw) return system_error(errno, "cannot allocate a protection domain on {}", context->name());
  return std::shared_ptr<ProtectionDomain>(new ProtectionDomain(raw, std::move(context)));
}

Result<MemoryRegion> MemoryRegion::create(const std::shared_ptr<ProtectionDomain>& pd, std::span<std::byte> memory,
                                          RelaxedOrdering ordering, size_t already, unsigned remote_access) {
  if (memory.empty()) return MemoryRegion();
  const VerbsApi& api = pd->context()->api();
  ibv_mr* raw = register_with(api, pd->get(), memory, ordering, remote_access);
  if (!raw)
    return system_error(errno,
                        "cannot register {} bytes of memory with {}, {} bytes are registered already; the limit of "
                        "locked memory (RLIMIT_MEMLOCK) is {}: {}",
                        memory.size(), pd->context()->name(), already, memlock_limit(), advice_for_registration(errno));
  return MemoryRegion(raw, api.dereg_mr, all_of(pd, token(pd->context(), &DeviceUse::mrs)));
}

Result<MemoryRegion> MemoryRegion::create_from_dmabuf(const std::shared_ptr<ProtectionDomain>& pd,
                                                      std::span<std::byte> memory, int dmabuf,
                                                      RelaxedOrdering ordering) {
  const VerbsApi& api = pd->context()->api();
  if (!api.reg_dmabuf_mr) return make_error(twohopSystemError, "this libibverbs has no ibv_reg_dmabuf_mr");
  unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  if (ordering != RelaxedOrdering::kOff) access |= unsigned{IBV_ACCESS_RELAXED_ORDERING};
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  ibv_mr* raw = api.reg_dmabuf_mr(pd->get(), 0, memory.size(), address, dmabuf, static_cast<int>(access));
  if (!raw)
    return system_error(errno, "{} does not take the dma-buf of {} bytes", pd->context()->name(), memory.size());
  raw->addr = memory.data();  // the library leaves the offset here; contains() goes by addresses, as requests do
  return MemoryRegion(raw, api.dereg_mr, all_of(pd, token(pd->context(), &DeviceUse::mrs)));
}

bool MemoryRegion::contains(const void* p, size_t bytes) const {
  if (!*this) return false;
  const auto begin = reinterpret_cast<uintptr_t>(get()->addr), at = reinterpret_cast<uintptr_t>(p);
  return at >= begin && at - begin <= get()->length && bytes <= get()->length - (at - begin);
}

Result<std::shared_ptr<CompletionChannel>> CompletionChannel::create(std::shared_ptr<Context> context) {
  const VerbsApi& api = context->api();
  ibv_comp_channel* raw = api.create_comp_channel(context->get());
  if (!raw)
    return system_error(errno, "cannot create a completion channel on {}; {}: raise it by ulimit -n, or close files",
                        context->name(), open_files());
  ::fcntl(raw->fd, F_SETFL, ::fcntl(raw->fd, F_GETFL) | O_NONBLOCK);
  return std::shared_ptr<CompletionChannel>(
      new CompletionChannel(raw, api.destroy_comp_channel, std::shared_ptr<const void>(std::move(context))));
}

Result<std::shared_ptr<CompletionQueue>> CompletionQueue::create(const std::shared_ptr<Context>& context,
                                                                 const std::shared_ptr<CompletionChannel>& channel,
                                                                 int depth) {
  const VerbsApi& api = context->api();
  ibv_cq* raw = api.create_cq(context->get(), depth, nullptr, channel->get(), 0);
  if (!raw)
    return system_error(errno,
                        "cannot create a completion queue of {} entries on {}; this process has {} there, the limit of "
                        "locked memory (RLIMIT_MEMLOCK) is {}: raise it, or set a smaller TWOHOP_NCHANNELS or "
                        "TWOHOP_IB_QPS_PER_CONNECTION",
                        depth, context->name(), context->use_of_limits(), memlock_limit());
  return std::shared_ptr<CompletionQueue>(
      new CompletionQueue(raw, api.destroy_cq, all_of(context, channel, token(context, &DeviceUse::cqs))));
}

Result<QueuePair> QueuePair::create(const std::shared_ptr<ProtectionDomain>& pd,
                                    const std::shared_ptr<CompletionQueue>& cq, QueueDepths& depths) {
  const VerbsApi& api = pd->context()->api();
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq->get();
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 0;
  init.cap = {depths.send, depths.receive, 1, 1, depths.inline_bytes};
  ibv_qp* raw = api.create_qp(pd->get(), &init);
  if (!raw)
    return system_error(errno,
                        "cannot create a queue pair of {} send and {} receive requests on {}; this process has {} "
                        "there, the limit of locked memory (RLIMIT_MEMLOCK) is {}: raise it, or set a smaller "
                        "TWOHOP_NCHANNELS or TWOHOP_IB_QPS_PER_CONNECTION",
                        depths.send, depths.receive, pd->context()->name(), pd->context()->use_of_limits(),
                        memlock_limit());
  depths.inline_bytes = init.cap.max_inline_data;
  return QueuePair(raw, api.destroy_qp, all_of(pd, cq, token(pd->context(), &DeviceUse::qps)));
}

}  // namespace twohop::verbs
