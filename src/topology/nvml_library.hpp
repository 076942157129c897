// NVIDIA's management library, loaded at run time: functions are looked up by name, each may be missing in an old
// driver. Its few prototypes are declared here, since most machines that build or test this have no nvml.h.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "topology/bus_id.hpp"

namespace twohop::topology {

class Nvml {
 public:
  using Device = void*;
  /// Null where it cannot be used; `why` stays empty where there is no such library.
  static std::unique_ptr<Nvml> open(const std::string& library, std::string& why);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  unsigned count() const;
  std::optional<Device> device(unsigned index) const;
  /// "GPU-" and the number that nvidia-smi -L prints.
  std::optional<Device> device_of(const std::string& uuid) const;
  std::optional<BusId> bus(Device device) const;
  std::string uuid(Device device) const { return text(uuid_, device); }
  std::string name(Device device) const { return text(name_, device); }
  int capability(Device device) const;

  static constexpr int kRemoteGpu = 0, kRemoteIbmCpu = 1;  // 2: a switch
  struct Remote {
    std::optional<BusId> bus;
    int type = -1;
  };
  /// Nothing for a link that is not active. `end` is set where there are no more links.
  std::optional<Remote> link(Device device, unsigned link, bool& end) const;

  /// Why `device` cannot read and write the memory of `peer`; empty where it can, or NVML does not know.
  std::string why_no_peer_access(Device device, Device peer) const;

 private:
  struct PciInfo {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
  };
  static_assert(sizeof(PciInfo) == 68);
  struct CloseLibrary {
    void operator()(void* handle) const;
  };

  explicit Nvml(std::unique_ptr<void, CloseLibrary> library);
  template <class Function>
  void find(const char* name, Function& function);
  int init();
  std::string text_of(int error) const;
  static std::optional<BusId> bus_of(PciInfo& info);
  using TextFunction = int (*)(Device, char*, unsigned);
  static std::string text(TextFunction function, Device device);

  std::unique_ptr<void, CloseLibrary> library_;
  bool initialised_ = false;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  const char* (*error_string_)(int) = nullptr;
  int (*count_)(unsigned*) = nullptr;
  int (*handle_)(unsigned, Device*) = nullptr;
  int (*handle_by_uuid_)(const char*, Device*) = nullptr;
  int (*pci_)(Device, PciInfo*) = nullptr;
  TextFunction uuid_ = nullptr, name_ = nullptr;
  int (*capability_)(Device, int*, int*) = nullptr;
  int (*link_state_)(Device, unsigned, unsigned*) = nullptr;
  int (*remote_pci_)(Device, unsigned, PciInfo*) = nullptr;
  int (*remote_type_)(Device, unsigned, int*) = nullptr;
  int (*p2p_status_)(Device, Device, int, int*) = nullptr;
};

}  // namespace twohop::topology
