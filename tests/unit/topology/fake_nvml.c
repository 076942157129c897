/* A stand-in for NVIDIA's management library: three GPUs. 0 and 1 share two links and have three to switches; GPU 2 has
   links that are down, and the chipset keeps it from writing to GPU 0. Its order is not that of the bus ids. */
#include <stdio.h>
#include <string.h>

typedef struct {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
} PciInfo;

static const char* const kBus[3] = {"00000000:41:00.0", "00000000:21:00.0", "00000000:61:00.0"};
static int numbers[3] = {0, 1, 2};

static int index_of(void* device) {
  return *(int*)device;
}
static void set_bus(PciInfo* info, const char* bus) {
  memset(info, 0, sizeof *info);
  snprintf(info->bus_id, sizeof info->bus_id, "%s", bus);
}

int nvmlInit_v2(void) {
  return 0;
}
int nvmlShutdown(void) {
  return 0;
}
const char* nvmlErrorString(int error) {
  return error == 0 ? "Success" : "Some error";
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= 3) return 2;
  *device = &numbers[index];
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  set_bus(info, kBus[index_of(device)]);
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned length) {
  snprintf(text, length, "GPU-%d", index_of(device));
  return 0;
}
int nvmlDeviceGetName(void* device, char* text, unsigned length) {
  (void)device;
  snprintf(text, length, "Fake H100");
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  (void)device;
  *major = 9;
  *minor = 0;
  return 0;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active) {
  if (link >= 5) return 2;
  *active = index_of(device) != 2;
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* info) {
  set_bus(info, link < 2 ? kBus[1 - index_of(device)] : "FFFFFFFF:FF:FF.0");
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  int index = 0;
  if (sscanf(uuid, "GPU-%d", &index) != 1 || index < 0 || index >= 3) return 6;
  *device = &numbers[index];
  return 0;
}
int nvmlDeviceGetP2PStatus(void* one, void* other, int capability, int* status) {
  const int write = 1, chipset = 1;
  *status = index_of(one) == 2 && index_of(other) == 0 && capability == write ? chipset : 0;
  return 0;
}
