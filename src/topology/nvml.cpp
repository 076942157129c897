// See nvml.hpp: what of NVML's knowledge goes into a machine. The library itself is nvml_library.hpp's.
#include "topology/nvml.hpp"

#include <map>
#include <memory>

#include "topology/bus_id.hpp"
#include "topology/finish.hpp"
#include "topology/nvml_library.hpp"

namespace twohop::topology {
namespace {

using Device = Nvml::Device;
constexpr unsigned kMostLinks = 64;  // the library refuses numbers past its own limit

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
      link.to_switch = link.peer == kNone && remote->type != Nvml::kRemoteIbmCpu && remote->type != Nvml::kRemoteGpu;
      if (link.peer == kNone && remote->type == Nvml::kRemoteGpu) continue;  // a GPU that this process may not see
      m_.links.push_back(link);
    }
  }

  Machine& m_;
  const Nvml& nvml_;
  std::map<BusId, int> gpus_;
};

}  // namespace

void add_nvml(Machine& machine, const std::string& library) {
  std::string why;
  const auto nvml = Nvml::open(library, why);
  if (nvml)
    Completer(machine, *nvml).complete();
  else if (!why.empty())
    add_note(machine, Note::Level::kWarning, why);
}

std::string why_no_peer_access(const std::string& library, const std::string& uuid,
                               std::span<const std::string> peers) {
  std::string why;
  const auto nvml = Nvml::open(library, why);
  const auto device = nvml ? nvml->device_of(uuid) : std::nullopt;
  for (size_t i = 0; device && i < peers.size(); ++i) {
    if (peers[i] == uuid) continue;
    const auto peer = nvml->device_of(peers[i]);
    if (peer) why = nvml->why_no_peer_access(*device, *peer);
    if (!why.empty()) return fmt::format("{} and {}: {} (NVML)", uuid, peers[i], why);
  }
  return "";
}

}  // namespace twohop::topology
