// Machine: the graph of one machine's NUMA nodes, PCI tree, GPUs, network ports and GPU links, whatever it was read
// from. Values only: built once by a reader (live, hwloc XML, NCCL XML, matrix), then never changed.
//
// Which GPU should use which port is decided in rails.hpp, on top of paths.hpp; nothing here prefers anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace twohop::topology {

constexpr int kNone = -1;  // an index or number that is not known

/// From near to far. kPix: one PCI switch; kPxb: several; kPhb: a host bridge (or the same <cpu> of an NCCL XML);
/// kNode: host bridges of one NUMA node; kSys: other NUMA nodes.
enum class PathClass : uint8_t { kLoc, kNvl, kC2c, kPix, kPxb, kPhb, kNode, kSys };

/// "0000:3b:00.0". Domains may be wider than 16 bits (hyper-v); fields of fake bridges can be 0xff.
struct BusId {
  uint32_t domain = 0;
  uint8_t bus = 0, device = 0, function = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 of the default comparison for a pointer
  auto operator<=>(const BusId&) const = default;
};

/// Inclusive ranges of CPU numbers, ascending. Empty: not known.
struct CpuRange {
  int first = 0, last = 0;
  bool operator==(const CpuRange&) const = default;
};

struct NumaNode {
  int os_index = kNone;  // kNone: the source says -1 or nothing
  int package = kNone;
  std::vector<CpuRange> cpus;
  std::string arch, vendor;
  int family = kNone, model = kNone;
  bool operator==(const NumaNode&) const = default;
};

/// A bridge, switch or device of the PCI tree. Parents come before their children.
struct PciNode {
  BusId bus;
  int parent = kNone;  // index in Machine::pci; kNone: a root, attached to its NUMA node
  int numa = kNone;    // index in Machine::numas
  bool host_bridge = false;
  bool is_switch = false;  // one PCI switch: a bridge of an NCCL XML, or the upstream port in a full tree
  bool is_port = false;    // a root port, or a downstream port of the switch above: no switch of its own
  uint32_t pci_class = 0;  // 0x030200
  uint16_t vendor = 0, device = 0, subsystem_vendor = 0, subsystem_device = 0;
  double gt_per_s = 0;  // of one lane; 0: not known
  int width = 0;        // lanes; 0: not known
  bool operator==(const PciNode&) const = default;
};

enum class Vendor : uint8_t { kUnknown, kNvidia, kAmd, kHygon, kIntel };

struct Gpu {
  int index = kNone;  // the number that its vendor's tools use (dev)
  std::string name;   // "GPU0"; unique in the machine
  int pci = kNone;    // index in Machine::pci; kNone: the source has no PCI (matrix)
  int numa = kNone;
  Vendor vendor = Vendor::kUnknown;
  std::string uuid, model;
  int rank = kNone;     // as written in an NCCL XML
  int sm = kNone;       // compute capability as 10 x major + minor
  std::string gcn;      // AMD's architecture; where it is set, sm counts compute units
  int arch = kNone;     // as written in an RCCL XML
  int mlopart = kNone;  // several GPUs of one PCI function are told apart by it
  bool gdr = true;      // can be reached by a NIC directly, as far as the source knows
  bool integrated = false;
  bool operator==(const Gpu&) const = default;
};

enum class LinkState : uint8_t { kUnknown, kActive, kDown };
enum class LinkLayer : uint8_t { kUnknown, kInfiniband, kEthernet };
enum class NetKind : uint8_t {
  kRdma,       // an RDMA device that verbs can use
  kOtherRdma,  // one that needs another provider (EFA, Slingshot's cxi, Omni-Path's psm)
  kPhysical,   // a NIC without RDMA
  kVirtual,    // bridge, veth, tunnel, vlan, docker...: never a rail, whatever speed it claims
  kWireless
};

/// One port of one network device.
struct NetPort {
  std::string name;  // RDMA device ("mlx5_0") or interface ("eth0"); one entry per (name, port)
  int port = 1;
  int dev = kNone;        // its number in an NCCL XML
  std::string interface;  // netdev of an RDMA port, where known
  int pci = kNone;        // index in Machine::pci
  int numa = kNone;
  NetKind kind = NetKind::kRdma;
  LinkLayer layer = LinkLayer::kUnknown;
  LinkState state = LinkState::kUnknown;
  double gbit_per_s = 0;  // 0: not known
  uint64_t guid = 0;      // of the card: ports of one card share it; 0: not known
  bool gdr = true;
  bool collective = false;  // in-network reduction (coll="1")
  int max_connections = 0;  // 0: not known
  double latency_us = 0;
  bool bond = false;
  std::vector<std::string> slaves;  // of a bond, where known
  bool operator==(const NetPort&) const = default;
};

enum class GpuLinkKind : uint8_t { kNvlink, kXgmi, kC2c };

/// `count` links from a GPU to another GPU, to an NVSwitch or to a CPU.
struct GpuLink {
  int gpu = kNone;
  int peer = kNone;  // index in Machine::gpus; kNone: `to_switch` or a CPU (C2C)
  bool to_switch = false;
  GpuLinkKind kind = GpuLinkKind::kNvlink;
  int count = 1;
  double gbit_per_s = 0;  // of all of them, one way; 0: not known
  bool operator==(const GpuLink&) const = default;
};

/// Path classes as a source states them (nvidia-smi topo -m has no tree). Indexed [gpu][gpu], [gpu][net], [net][net]; a
/// row that is empty was not stated (the text was cut).
struct GivenPaths {
  std::vector<std::vector<PathClass>> gpu_gpu, gpu_net;
  std::vector<std::vector<PathClass>> net_net;
  bool operator==(const GivenPaths&) const = default;
};

enum class SourceKind : uint8_t { kLive, kHwlocXml, kNcclXml, kMatrix, kDeviceInfo };

/// Something odd in a source, or between a source and the live machine.
struct Note {
  enum class Level : uint8_t { kInfo, kWarning } level = Level::kInfo;
  std::string text;
  bool operator==(const Note&) const = default;
};

struct Machine {
  SourceKind kind = SourceKind::kLive;
  std::string source;  // "this machine" or the file's name
  std::vector<NumaNode> numas;
  std::vector<PciNode> pci;
  std::vector<Gpu> gpus;
  std::vector<NetPort> nets;
  std::vector<GpuLink> links;
  std::optional<GivenPaths> given;
  std::vector<Note> notes;
  bool operator==(const Machine&) const = default;
};

}  // namespace twohop::topology
