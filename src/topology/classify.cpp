// Vendors, PCI classes and names of network devices.
#include "topology/classify.hpp"

#include <algorithm>
#include <array>

#include "topology/text.hpp"

namespace twohop::topology {
namespace {

constexpr uint16_t kNvidiaId = 0x10de, kAmdId = 0x1002, kHygonId = 0x1d94, kIntelId = 0x8086;
constexpr uint16_t kMellanoxId = 0x15b3, kAmazonId = 0x1d0f, kCrayId = 0x17db, kBroadcomId = 0x14e4;

// Names of RDMA devices: of drivers (mlx5_0), and of udev (rocep1s0f0, ibp1s0; rdmap1s0 where the layer is EFA's own).
constexpr std::array kVerbsNames = {"mlx4_",  "mlx5_",      "mthca",  "qib",  "hns_",    "irdma", "i40iw", "bnxt_re",
                                    "cxgb",   "qedr",       "ocrdma", "roce", "erdma",   "rxe",   "siw",   "mana_",
                                    "ionic_", "vmw_pvrdma", "hbl_",   "iwp",  "xscale_", "ibp",   "ibs",   "ibo"};
constexpr std::array kOtherRdmaNames = {"cxi", "efa", "rdmap", "hfi1_", "opap", "psm", "usnic_"};
constexpr std::array kVirtualNames = {
    "lo",      "docker", "br-",     "br_",    "virbr",        "veth",      "cali",    "tunl",   "flannel",
    "cni",     "vxlan",  "geneve",  "tap",    "tun",          "tailscale", "wg",      "kube",   "dummy",
    "ifb",     "lxc",    "lxd",     "vnet",   "azv",          "weave",     "zt",      "ovs",    "gre",
    "erspan",  "sit",    "ip6",     "ip_vti", "nodelocaldns", "macvlan",   "macvtap", "ipvlan", "vmnet",
    "podman",  "cilium", "nerdctl", "antrea", "genev_sys",    "utun",      "ppp",     "vlan",   "nlmon",
    "incusbr", "lxdbr",  "isatap",  "teql",   "vcan",         "fwbr",      "fwpr",    "fwln",   "vmbr"};
constexpr std::array kEthernetVerbs = {"bnxt_re", "roce",  "irdma",  "i40iw", "iwp", "hns_",
                                       "erdma",   "mana_", "ionic_", "qedr",  "cxgb"};

template <class Table>
bool starts_with_any(std::string_view name, const Table& table) {
  return std::any_of(table.begin(), table.end(), [&](const char* prefix) { return name.starts_with(prefix); });
}

bool is_one_of(uint16_t id, std::initializer_list<uint16_t> ids) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

Vendor vendor_of(uint16_t pci_vendor) {
  switch (pci_vendor) {
    case kNvidiaId:
      return Vendor::kNvidia;
    case kAmdId:
      return Vendor::kAmd;
    case kHygonId:
      return Vendor::kHygon;
    case kIntelId:
      return Vendor::kIntel;
    default:
      return Vendor::kUnknown;
  }
}

bool has_gpu_class(uint32_t c) {
  return c >> 16 == 0x03 || c >> 16 == 0x12 || c >> 8 == 0x0b40;
}

bool is_gpu(const PciNode& node) {
  if (!has_gpu_class(node.pci_class)) return false;
  // Intel's VGA class is the display of a CPU; its data centre GPUs have none.
  if (node.vendor == kIntelId) return node.pci_class >> 8 == 0x0380 || node.pci_class >> 8 == 0x0302;
  return is_one_of(node.vendor, {kNvidiaId, kAmdId, kHygonId});
}

bool is_nic_class(uint32_t c) {
  return c >> 16 == 0x02 || is_infiniband_class(c);
}
bool is_infiniband_class(uint32_t c) {
  return c >> 8 == 0x0207 || c >> 8 == 0x0c06;
}
bool is_wireless_class(uint32_t c) {
  return c >> 8 == 0x0280 || c >> 16 == 0x0d;
}
bool is_nvswitch_class(uint32_t c) {
  return c == 0x068000;
}

std::optional<NetKind> rdma_kind_of_name(std::string_view name) {
  if (starts_with_any(name, kOtherRdmaNames)) return NetKind::kOtherRdma;
  if (starts_with_any(name, kVerbsNames)) return NetKind::kRdma;
  return std::nullopt;
}

NetKind interface_kind_of_name(std::string_view name) {
  if (name.starts_with("wl") || name.starts_with("ww")) return NetKind::kWireless;
  if (starts_with_any(name, kVirtualNames) || name.find_first_of(".@:") != std::string_view::npos)
    return NetKind::kVirtual;
  return NetKind::kPhysical;
}

bool is_bond_name(std::string_view name) {
  return name.find("bond") != std::string_view::npos || (name.starts_with("team") && all_digits(name.substr(4)));
}

bool is_infiniband_interface(std::string_view name) {
  return (name.starts_with("ib") || name.starts_with("hsi")) && name.size() > 2;
}

NetKind kind_of_nic_device(const PciNode& node) {
  if (is_wireless_class(node.pci_class)) return NetKind::kWireless;
  if (is_infiniband_class(node.pci_class)) return NetKind::kRdma;
  switch (node.vendor) {
    case kAmazonId:
      return node.device >> 8 == 0xef ? NetKind::kOtherRdma : NetKind::kPhysical;  // EFA; else ENA
    case kCrayId:
      return NetKind::kOtherRdma;
    // Of Broadcom's, the families that have a RoCE driver; of Intel's, E810 and newer.
    case kBroadcomId:
      return is_one_of(node.device, {0x1750, 0x1751, 0x1752, 0x1760, 0x1800, 0x1801, 0x1803}) ? NetKind::kRdma
                                                                                              : NetKind::kPhysical;
    case kIntelId:
      return is_one_of(node.device, {0x1591, 0x1592, 0x1593, 0x159b, 0x1889, 0x1452}) ? NetKind::kRdma
                                                                                      : NetKind::kPhysical;
    case 0:
    case 0xffff:
    case kMellanoxId:
      return NetKind::kRdma;
    default:
      return NetKind::kPhysical;
  }
}

LinkLayer layer_of(const PciNode* node, std::string_view name) {
  if (starts_with_any(name, kEthernetVerbs)) return LinkLayer::kEthernet;
  if (node == nullptr) return LinkLayer::kUnknown;
  if (is_infiniband_class(node->pci_class)) return LinkLayer::kInfiniband;
  // ConnectX cards show the class of what their ports are set to.
  if (node->vendor == kMellanoxId && node->pci_class >> 8 == 0x0200) return LinkLayer::kEthernet;
  return LinkLayer::kUnknown;
}

}  // namespace twohop::topology
