// What do the exported functions of libibverbs call? One function per verb that does more than fill a struct.
#pragma once

#include "softnic/process.hpp"

namespace softnic {

// memory.cpp. null and errno on error.
ibv_mr* register_memory(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access);
int deregister_memory(ibv_mr* mr);

// async_events.cpp
int get_async_event(LocalContext* context, ibv_async_event* event);
void acknowledge_async_event(const ibv_async_event* event);

// completion_setup.cpp
LocalChannel* create_channel(LocalContext* context);
int destroy_channel(LocalChannel* channel);
LocalCq* create_cq(LocalContext* context, int depth, void* user, LocalChannel* channel);
int destroy_cq(LocalCq* cq);
int get_cq_event(LocalChannel* channel, ibv_cq** cq, void** user);

// queue_pair.cpp
LocalQp* create_qp(LocalPd* pd, ibv_qp_init_attr* init);
int destroy_qp(LocalQp* qp);

// qp_attributes.cpp
int modify_qp(LocalQp* qp, const ibv_qp_attr& attributes, int mask);
void query_qp(LocalQp* qp, ibv_qp_attr* attributes, ibv_qp_init_attr* init);

// device.cpp
void query_device(const LocalContext* context, ibv_device_attr* attributes);
void query_port(const LocalContext* context, ibv_port_attr* attributes);
// False: no such entry in the port's table. An empty entry has a zero GID.
bool query_gid(const LocalContext* context, uint32_t index, ibv_gid* gid, ibv_gid_type* type);
LocalContext* open_device(LocalDevice* device);
void close_device(LocalContext* context);
ibv_mtu mtu_code(int bytes);

}  // namespace softnic
