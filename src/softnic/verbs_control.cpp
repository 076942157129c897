// The exported functions of libibverbs: devices, queries, objects. Each only translates; the work is done elsewhere.
#include <endian.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "softnic/datapath.hpp"
#include "softnic/softnic.h"
#include "softnic/verbs_exports.hpp"

// verbs.h hides these behind macros of the same name.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace {

using namespace softnic;

// The array that the application gets, with what keeps the devices alive behind it.
struct DeviceList {
  std::shared_ptr<Process> process;
  ibv_device* devices[kMaxDevices + 1];
};
DeviceList* list_of(ibv_device** devices) {
  return reinterpret_cast<DeviceList*>(reinterpret_cast<char*>(devices) - offsetof(DeviceList, devices));
}

LocalContext* to_local(ibv_context* context) {
  return local<LocalContext>(context);
}

void set_count(int* count, int value) {
  if (count) *count = value;
}

}  // namespace

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  std::string error;
  auto process = Process::attach(&error);
  set_count(count, 0);
  if (!process) {
    std::fprintf(stderr, "%s\n", error.c_str());
    errno = EINVAL;
    return nullptr;
  }
  auto* list = new DeviceList{process, {}};
  for (unsigned i = 0; i < process->settings().devices; i++) list->devices[i] = process->device(i);
  set_count(count, static_cast<int>(process->settings().devices));
  return list->devices;
}

void ibv_free_device_list(ibv_device** devices) {
  if (devices) delete list_of(devices);
}

const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}
int ibv_get_device_index(ibv_device* device) {
  return static_cast<int>(local<LocalDevice>(device)->index);
}
__be64 ibv_get_device_guid(ibv_device* device) {
  auto* own = local<LocalDevice>(device);
  return htobe64(0x500f70fffe000000 + own->process->settings().host * 256 + own->index);
}

ibv_context* ibv_open_device(ibv_device* device) {
  return open_device(local<LocalDevice>(device));
}
int ibv_close_device(ibv_context* context) {
  close_device(to_local(context));
  return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  query_device(to_local(context), attributes);
  return 0;
}

int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attributes) {
  if (port != 1) return EINVAL;
  query_port(to_local(context), reinterpret_cast<ibv_port_attr*>(attributes));
  return 0;
}

int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  ibv_gid_type type{};
  if (port == 1 && index >= 0 && query_gid(to_local(context), static_cast<uint32_t>(index), gid, &type)) return 0;
  errno = EINVAL;
  return -1;
}

int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned index, unsigned* type) {
  ibv_gid gid{};
  ibv_gid_type found{};
  if (port != 1 || !query_gid(to_local(context), index, &gid, &found)) {
    errno = EINVAL;
    return -1;
  }
  *type = found == IBV_GID_TYPE_ROCE_V2 ? 1 : 0;  // of this old function: 0 is IB or RoCE v1, 1 RoCE v2
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry, uint32_t flags,
                      size_t size) {
  ibv_gid gid{};
  constexpr ibv_gid empty{};
  ibv_gid_type type{};
  if (flags || port != 1 || size < sizeof *entry || !query_gid(to_local(context), index, &gid, &type)) return EINVAL;
  if (std::memcmp(&gid, &empty, sizeof gid) == 0) return ENODATA;
  *entry = {gid, index, port, static_cast<uint32_t>(type), 0};
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max, uint32_t flags, size_t size) {
  size_t found = 0;
  for (uint32_t index = 0; index < kMaxGids && found < max; index++) {
    int status = _ibv_query_gid_ex(context, 1, index, &entries[found], flags, size);
    if (status == EINVAL) return -EINVAL;
    if (status == 0) found++;
  }
  return static_cast<ssize_t>(found);
}

int ibv_query_pkey(ibv_context*, uint8_t port, int index, __be16* pkey) {
  if (port != 1 || index != 0) return -1;
  *pkey = 0xffff;
  return 0;
}
int ibv_get_pkey_index(ibv_context*, uint8_t port, __be16 pkey) {
  return port == 1 && pkey == 0xffff ? 0 : -1;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return get_async_event(to_local(context), event);
}
void ibv_ack_async_event(ibv_async_event* event) {
  acknowledge_async_event(event);
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto* pd = new LocalPd{};
  pd->context = context;
  pd->id = pd->handle = static_cast<uint32_t>(to_local(context)->owner->state()->next_id.fetch_add(1));
  return pd;
}
int ibv_dealloc_pd(ibv_pd* pd) {
  if (local<LocalPd>(pd)->users.load() != 0) return EBUSY;
  delete local<LocalPd>(pd);
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return register_memory(pd, address, length, reinterpret_cast<uint64_t>(address), static_cast<unsigned>(access));
}
ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access) {
  return register_memory(pd, address, length, iova, static_cast<unsigned>(access));
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
  return register_memory(pd, address, length, iova, access);
}
int ibv_dereg_mr(ibv_mr* mr) {
  return deregister_memory(mr);
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return create_channel(to_local(context));
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return destroy_channel(local<LocalChannel>(channel));
}
ibv_cq* ibv_create_cq(ibv_context* context, int depth, void* user, ibv_comp_channel* channel, int) {
  return create_cq(to_local(context), depth, user, local<LocalChannel>(channel));
}
int ibv_destroy_cq(ibv_cq* cq) {
  return destroy_cq(local<LocalCq>(cq));
}
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** user) {
  return get_cq_event(local<LocalChannel>(channel), cq, user);
}
void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  if (count == 0) return;
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  return create_qp(local<LocalPd>(pd), init);
}
int ibv_destroy_qp(ibv_qp* qp) {
  return destroy_qp(local<LocalQp>(qp));
}
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  return modify_qp(local<LocalQp>(qp), *attributes, mask);
}
int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int, ibv_qp_init_attr* init) {
  query_qp(local<LocalQp>(qp), attributes, init);
  return 0;
}

int64_t softnic_counter(ibv_context* context, const char* name) {
  for (unsigned i = 0; i < kCounters; i++) {
    std::string_view file = counter_file(static_cast<Counter>(i));
    if (file.substr(file.find('/') + 1) == name)
      return static_cast<int64_t>(to_local(context)->owner->own_port(to_local(context)->index)->counters[i].load());
  }
  return -1;
}

void softnic_set_port(ibv_context* context, int up) {
  LocalContext& own = *to_local(context);
  own.owner->own_port(own.index)->forced.store(up);
  for (uint32_t slot = 0; slot < kMaxProcesses; slot++)
    if (own.owner->state()->processes[slot].in_use.load()) own.owner->wake(slot);
}

}  // extern "C"
