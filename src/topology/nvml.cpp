// NVML through dlopen: functions are looked up by name, each may be missing in an old driver.
#include "topology/nvml.hpp"

#include <dlfcn.h>

#include <array>
#include <map>
#include <memory>
#include <optional>

#include "topology/bus_id.hpp"
#include "topology/finish.hpp"

namespace twohop::topology {
namespace {

// NVML's interface, as far as it is used here.
using Device = void*;
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);
constexpr int kSuccess = 0;
constexpr int kRemoteGpu = 0, kRemoteIbmCpu = 1;  // 2: a switch
constexpr unsigned kMostLinks = 64;               // the library refuses numbers past its own limit

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};

class Nvml {
 public:
  static std::unique_ptr<Nvml> open(const std::string& library, Machine& machine) {
    std::unique_ptr<void, CloseLibrary> handle(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!handle) return nullptr;
    std::unique_ptr<Nvml> nvml(new Nvml(std::move(handle)));
    if (!nvml->count_ || !nvml->handle_ || !nvml->pci_) {
      add_note(machine, Note::Level::kWarning,
               fmt::format("{} has not the functions of NVML; it is not used", library));
      return nullptr;
    }
    if (const int error = nvml->init(); error != kSuccess) {
      add_note(machine, Note::Level::kWarning,
               fmt::format("NVML cannot be initialised: {} (is the driver loaded, and of the library's version?)",
                           nvml->text_of(error)));
      return nullptr;
    }
    return nvml;
  }

  ~Nvml() {
    if (initialised_ && shutdown_) shutdown_();
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  unsigned count() const {
    unsigned count = 0;
    return count_(&count) == kSuccess ? count : 0;
  }

  std::optional<Device> device(unsigned index) const {
    Device device = nullptr;
    if (handle_(index, &device) != kSuccess) return std::nullopt;
    return device;
  }

  std::optional<BusId> bus(Device device) const {
    PciInfo info{};
    if (pci_(device, &info) != kSuccess) return std::nullopt;
    return bus_of(info);
  }

  std::string uuid(Device device) const { return text(uuid_, device); }
  std::string name(Device device) const { return text(name_, device); }

  int capability(Device device) const {
    int major = 0, minor = 0;
    return capability_ && capability_(device, &major, &minor) == kSuccess ? 10 * major + minor : kNone;
  }

  struct Remote {
    std::optional<BusId> bus;
    int type = -1;
  };

  /// Nothing for a link that is not active. `end` is set where there are no more links.
  std::optional<Remote> link(Device device, unsigned link, bool& end) const {
    unsigned active = 0;
    end = !link_state_ || link_state_(device, link, &active) != kSuccess;
    if (end || active == 0) return std::nullopt;
    Remote remote;
    PciInfo info{};
    if (remote_pci_ && remote_pci_(device, link, &info) == kSuccess) remote.bus = bus_of(info);
    if (int type = 0; remote_type_ && remote_type_(device, link, &type) == kSuccess) remote.type = type;
    return remote;
  }

 private:
  explicit Nvml(std::unique_ptr<void, CloseLibrary> library) : library_(std::move(library)) {
    find("nvmlInit_v2", init_);
    find("nvmlShutdown", shutdown_);
    find("nvmlErrorString", error_string_);
    find("nvmlDeviceGetCount_v2", count_);
    find("nvmlDeviceGetHandleByIndex_v2", handle_);
    find("nvmlDeviceGetPciInfo_v3", pci_);
    find("nvmlDeviceGetUUID", uuid_);
    find("nvmlDeviceGetName", name_);
    find("nvmlDeviceGetCudaComputeCapability", capability_);
    find("nvmlDeviceGetNvLinkState", link_state_);
    find("nvmlDeviceGetNvLinkRemotePciInfo_v2", remote_pci_);
    find("nvmlDeviceGetNvLinkRemoteDeviceType", remote_type_);
  }

  template <class Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_.get(), name));
  }

  int init() {
    constexpr int kFunctionNotFound = 13;
    const int error = init_ ? init_() : kFunctionNotFound;
    initialised_ = error == kSuccess;
    return error;
  }

  std::string text_of(int error) const { return error_string_ ? error_string_(error) : fmt::format("error {}", error); }

  static std::optional<BusId> bus_of(PciInfo& info) {
    info.bus_id[sizeof(info.bus_id) - 1] = '\0';
    return parse_bus_id(info.bus_id);
  }

  using TextFunction = int (*)(Device, char*, unsigned);
  static std::string text(TextFunction function, Device device) {
    std::array<char, 97> buffer{};
    if (!function || function(device, buffer.data(), buffer.size() - 1) != kSuccess) return "";
    return buffer.data();
  }

  std::unique_ptr<void, CloseLibrary> library_;
  bool initialised_ = false;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  const char* (*error_string_)(int) = nullptr;
  int (*count_)(unsigned*) = nullptr;
  int (*handle_)(unsigned, Device*) = nullptr;
  int (*pci_)(Device, PciInfo*) = nullptr;
  TextFunction uuid_ = nullptr, name_ = nullptr;
  int (*capability_)(Device, int*, int*) = nullptr;
  int (*link_state_)(Device, unsigned, unsigned*) = nullptr;
  int (*remote_pci_)(Device, unsigned, PciInfo*) = nullptr;
  int (*remote_type_)(Device, unsigned, int*) = nullptr;
};

class Completer {
 public:
  Completer(Machine& machine, const Nvml& nvml) : m_(machine), nvml_(nvml) {
    for (size_t i = 0; i < m_.gpus.size(); ++i)
      if (m_.gpus[i].pci != kNone) gpus_.emplace(m_.pci[static_cast<size_t>(m_.gpus[i].pci)].bus, static_cast<int>(i));
  }

  void complete() {
    // Its numbers are the ones that tools and CUDA_DEVICE_ORDER=PCI_BUS_ID use; what it does not see comes after.
    for (Gpu& gpu : m_.gpus)
      if (gpu.vendor == Vendor::kNvidia) gpu.index = kNone;
    std::vector<std::pair<int, Device>> seen;
    for (unsigned i = 0; i < nvml_.count(); ++i) {
      const auto device = nvml_.device(i);
      const auto bus = device ? nvml_.bus(*device) : std::nullopt;
      if (!bus) continue;
      const int gpu = gpu_at(*bus);
      describe(m_.gpus[static_cast<size_t>(gpu)], *device, static_cast<int>(i));
      seen.emplace_back(gpu, *device);
    }
    for (const auto& [gpu, device] : seen) add_links(gpu, device);
    merge_links(m_);
    for (const Gpu& gpu : m_.gpus)
      if (gpu.vendor == Vendor::kNvidia && gpu.index == kNone)
        add_note(
            m_, Note::Level::kInfo,
            fmt::format(
                "the GPU at {} is on the PCI bus and not seen by NVML (a container's or job's share, or no driver)",
                to_string(m_.pci[static_cast<size_t>(gpu.pci)].bus)));
  }

 private:
  int gpu_at(const BusId& bus) {
    const auto [at, is_new] = gpus_.emplace(bus, static_cast<int>(m_.gpus.size()));
    if (!is_new) return at->second;
    PciNode node;
    node.bus = bus;
    node.pci_class = 0x030200;
    node.vendor = 0x10de;
    m_.pci.push_back(node);
    Gpu gpu;
    gpu.pci = static_cast<int>(m_.pci.size()) - 1;
    gpu.vendor = Vendor::kNvidia;
    m_.gpus.push_back(std::move(gpu));
    return at->second;
  }

  void describe(Gpu& gpu, Device device, int index) const {
    gpu.index = index;
    gpu.uuid = nvml_.uuid(device);
    gpu.model = nvml_.name(device);
    gpu.sm = nvml_.capability(device);
  }

  void add_links(int gpu, Device device) {
    bool end = false;
    for (unsigned number = 0; number < kMostLinks && !end; ++number) {
      const auto remote = nvml_.link(device, number, end);
      if (!remote) continue;
      GpuLink link;
      link.gpu = gpu;
      const auto peer = remote->bus ? gpus_.find(*remote->bus) : gpus_.end();
      if (peer != gpus_.end()) link.peer = peer->second;
      // A guest may not be told what is at the other end; no GPU of its own means a switch.
      link.to_switch = link.peer == kNone && remote->type != kRemoteIbmCpu && remote->type != kRemoteGpu;
      if (link.peer == kNone && remote->type == kRemoteGpu) continue;  // a GPU that this process may not see
      m_.links.push_back(link);
    }
  }

  Machine& m_;
  const Nvml& nvml_;
  std::map<BusId, int> gpus_;
};

}  // namespace

void add_nvml(Machine& machine, const std::string& library) {
  const auto nvml = Nvml::open(library, machine);
  if (nvml) Completer(machine, *nvml).complete();
}

}  // namespace twohop::topology
