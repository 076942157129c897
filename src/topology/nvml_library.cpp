// See nvml_library.hpp.
#include "topology/nvml_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <iterator>

#include "topology/machine.hpp"

namespace twohop::topology {
namespace {

constexpr int kSuccess = 0;

/// nvmlGpuP2PStatus_t, in words.
const char* p2p_text(int status) {
  static constexpr const char* kTexts[] = {"possible",
                                           "the chipset does not support it",
                                           "the GPUs do not support it",
                                           "the way over the I/O hubs does not support it",
                                           "the driver's registry key disables it",
                                           "it is not supported",
                                           "unknown"};
  return status >= 0 && static_cast<size_t>(status) < std::size(kTexts) ? kTexts[status] : "unknown";
}

}  // namespace

void Nvml::CloseLibrary::operator()(void* handle) const {
  dlclose(handle);
}

std::unique_ptr<Nvml> Nvml::open(const std::string& library, std::string& why) {
  std::unique_ptr<void, CloseLibrary> handle(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!handle) return nullptr;
  std::unique_ptr<Nvml> nvml(new Nvml(std::move(handle)));
  if (!nvml->count_ || !nvml->handle_ || !nvml->pci_) {
    why = fmt::format("{} has not the functions of NVML; it is not used", library);
    return nullptr;
  }
  if (const int error = nvml->init(); error != kSuccess) {
    why = fmt::format("NVML cannot be initialised: {} (is the driver loaded, and of the library's version?)",
                      nvml->text_of(error));
    return nullptr;
  }
  return nvml;
}

Nvml::~Nvml() {
  if (initialised_ && shutdown_) shutdown_();
}

Nvml::Nvml(std::unique_ptr<void, CloseLibrary> library) : library_(std::move(library)) {
  find("nvmlInit_v2", init_);
  find("nvmlShutdown", shutdown_);
  find("nvmlErrorString", error_string_);
  find("nvmlDeviceGetCount_v2", count_);
  find("nvmlDeviceGetHandleByIndex_v2", handle_);
  find("nvmlDeviceGetHandleByUUID", handle_by_uuid_);
  find("nvmlDeviceGetPciInfo_v3", pci_);
  find("nvmlDeviceGetUUID", uuid_);
  find("nvmlDeviceGetName", name_);
  find("nvmlDeviceGetCudaComputeCapability", capability_);
  find("nvmlDeviceGetNvLinkState", link_state_);
  find("nvmlDeviceGetNvLinkRemotePciInfo_v2", remote_pci_);
  find("nvmlDeviceGetNvLinkRemoteDeviceType", remote_type_);
  find("nvmlDeviceGetP2PStatus", p2p_status_);
}

template <class Function>
void Nvml::find(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library_.get(), name));
}

int Nvml::init() {
  constexpr int kFunctionNotFound = 13;
  const int error = init_ ? init_() : kFunctionNotFound;
  initialised_ = error == kSuccess;
  return error;
}

std::string Nvml::text_of(int error) const {
  return error_string_ ? error_string_(error) : fmt::format("error {}", error);
}

unsigned Nvml::count() const {
  unsigned count = 0;
  return count_(&count) == kSuccess ? count : 0;
}

std::optional<Nvml::Device> Nvml::device(unsigned index) const {
  Device device = nullptr;
  if (handle_(index, &device) != kSuccess) return std::nullopt;
  return device;
}

std::optional<Nvml::Device> Nvml::device_of(const std::string& uuid) const {
  Device device = nullptr;
  if (!handle_by_uuid_ || handle_by_uuid_(uuid.c_str(), &device) != kSuccess) return std::nullopt;
  return device;
}

std::optional<BusId> Nvml::bus(Device device) const {
  PciInfo info{};
  if (pci_(device, &info) != kSuccess) return std::nullopt;
  return bus_of(info);
}

std::optional<BusId> Nvml::bus_of(PciInfo& info) {
  info.bus_id[sizeof(info.bus_id) - 1] = '\0';
  return parse_bus_id(info.bus_id);
}

std::string Nvml::text(TextFunction function, Device device) {
  std::array<char, 97> buffer{};
  if (!function || function(device, buffer.data(), buffer.size() - 1) != kSuccess) return "";
  return buffer.data();
}

int Nvml::capability(Device device) const {
  int major = 0, minor = 0;
  return capability_ && capability_(device, &major, &minor) == kSuccess ? 10 * major + minor : kNone;
}

std::optional<Nvml::Remote> Nvml::link(Device device, unsigned link, bool& end) const {
  unsigned active = 0;
  end = !link_state_ || link_state_(device, link, &active) != kSuccess;
  if (end || active == 0) return std::nullopt;
  Remote remote;
  PciInfo info{};
  if (remote_pci_ && remote_pci_(device, link, &info) == kSuccess) remote.bus = bus_of(info);
  if (int type = 0; remote_type_ && remote_type_(device, link, &type) == kSuccess) remote.type = type;
  return remote;
}

std::string Nvml::why_no_peer_access(Device device, Device peer) const {
  constexpr int kRead = 0, kWrite = 1, kPossible = 0, kUnknown = 6;
  if (!p2p_status_) return "";
  for (const int index : {kRead, kWrite}) {
    int status = kPossible;
    if (p2p_status_(device, peer, index, &status) != kSuccess || status == kPossible || status == kUnknown) continue;
    return fmt::format("no P2P {}: {}", index == kRead ? "reads" : "writes", p2p_text(status));
  }
  return "";
}

}  // namespace twohop::topology
