// What does a device say of itself? Limits, port attributes, the GID table.
#include <endian.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softnic/datapath.hpp"
#include "softnic/port.hpp"
#include "softnic/verbs_exports.hpp"

namespace softnic {
namespace {

int unsupported() {
  return EOPNOTSUPP;
}

ibv_mw* no_window(ibv_pd*, ibv_mw_type) {
  errno = EOPNOTSUPP;
  return nullptr;
}
int no_bind(ibv_qp*, ibv_mw*, ibv_mw_bind*) {
  return EOPNOTSUPP;
}
int no_dealloc(ibv_mw*) {
  return EOPNOTSUPP;
}
int no_srq(ibv_srq*, ibv_recv_wr*, ibv_recv_wr**) {
  return EOPNOTSUPP;
}

void fill_operations(ibv_context_ops* ops) {
  // All slots are pointers. Nobody calls the old ones, but without this a stray call would jump to null.
  void* nothing = reinterpret_cast<void*>(&unsupported);
  static_assert(sizeof(ibv_context_ops) % sizeof nothing == 0);
  for (size_t at = 0; at < sizeof *ops; at += sizeof nothing)
    std::memcpy(reinterpret_cast<char*>(ops) + at, &nothing, sizeof nothing);
  ops->alloc_mw = no_window;
  ops->bind_mw = no_bind;
  ops->dealloc_mw = no_dealloc;
  ops->post_srq_recv = no_srq;
  ops->poll_cq = poll_cq;
  ops->req_notify_cq = req_notify_cq;
  ops->post_send = post_send;
  ops->post_recv = post_recv;
}

}  // namespace

ibv_mtu mtu_code(int bytes) {
  int code = IBV_MTU_256;
  while (code < IBV_MTU_4096 && (128 << code) < bytes) code++;
  return static_cast<ibv_mtu>(code);
}

void query_device(const LocalContext* context, ibv_device_attr* a) {
  *a = {};
  std::strcpy(a->fw_ver, "softnic");
  a->node_guid = a->sys_image_guid =
      htobe64(0x500f70fffe000000 + context->owner->settings().host * 256 + context->index);
  a->max_mr_size = UINT64_MAX;
  a->page_size_cap = kPageBytes;
  a->vendor_id = 0xffffff;  // unknown to all: tools then use nothing but the plain verbs
  a->vendor_part_id = 1;
  a->max_qp = kMaxQps;
  a->max_qp_wr = kMaxWr;
  a->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID;
  a->max_sge = a->max_sge_rd = kMaxSge;
  a->max_cq = kMaxCqs;
  a->max_cqe = kMaxCqe;
  a->max_mr = kMaxMrs;
  a->max_pd = 65536;
  a->max_qp_rd_atom = a->max_qp_init_rd_atom = 16;
  a->max_res_rd_atom = 16 * kMaxQps;
  a->atomic_cap = IBV_ATOMIC_HCA;
  a->max_ah = 65536;
  a->max_pkeys = 1;
  a->local_ca_ack_delay = 15;
  a->phys_port_cnt = 1;
}

void query_port(const LocalContext* context, ibv_port_attr* a) {
  bool up = port_is_up(*context->owner->own_port(context->index), now_ns());
  std::memset(a, 0, offsetof(ibv_port_attr, port_cap_flags2));  // what an old program has room for
  a->state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  a->max_mtu = IBV_MTU_4096;
  a->active_mtu = mtu_code(context->owner->settings().mtu_bytes);
  a->gid_tbl_len = kMaxGids;
  a->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  a->max_msg_sz = 1u << 31;
  a->pkey_tbl_len = 1;
  a->max_vl_num = 1;
  a->active_width = 2;   // 4x
  a->active_speed = 32;  // EDR
  a->phys_state = up ? 5 : 3;
  const bool infiniband = context->owner->settings().is_infiniband(context->index);
  a->link_layer = infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  if (infiniband) a->lid = lid_of({context->owner->settings().host, context->index});
}

bool query_gid(const LocalContext* context, uint32_t index, ibv_gid* gid, ibv_gid_type* type) {
  const Settings& settings = context->owner->settings();
  if (index >= kMaxGids) return false;
  const PortName port{settings.host, context->index};
  *gid = {};
  *type = IBV_GID_TYPE_ROCE_V1;
  if (settings.is_infiniband(context->index)) {  // subnet prefix and GUID, no more
    *type = IBV_GID_TYPE_IB;
    if (index == 0) *gid = gid_of(port, 0, GidKind::kLinkLocalV1);
    return true;
  }
  if (index >= settings.gids.size()) return true;
  *gid = gid_of(port, settings.net_of(context->index), settings.gids[index]);
  if (is_v2(settings.gids[index])) *type = IBV_GID_TYPE_ROCE_V2;
  return true;
}

LocalContext* open_device(LocalDevice* device) {
  if (const int refused = device->process->refusal(Refusal::kOpenDevice)) return errno = refused, nullptr;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return nullptr;
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  auto* context = new LocalContext{};
  context->device = device;
  fill_operations(&context->ops);
  context->cmd_fd = -1;
  context->async_fd = ends[0];
  context->num_comp_vectors = 1;
  pthread_mutex_init(&context->mutex, nullptr);
  context->abi_compat = nullptr;  // no extended operations
  context->owner = device->process->shared_from_this();
  context->index = device->index;
  context->async_write_fd = ends[1];
  context->port_up = port_is_up(*context->owner->own_port(device->index), now_ns());
  context->owner->add(context);
  context->owner->wake(context->owner->slot());  // the helper must know when the port changes
  return context;
}

void close_device(LocalContext* context) {
  context->owner->remove(context);
  close(context->async_fd);
  close(context->async_write_fd);
  pthread_mutex_destroy(&context->mutex);
  delete context;
}

}  // namespace softnic
