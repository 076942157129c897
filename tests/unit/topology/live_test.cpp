// The live machine: this one, a made-up /sys, a made-up NVML.
#include "topology/live.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "topology/bus_id.hpp"
#include "topology/finish.hpp"
#include "topology/json.hpp"
#include "topology/nvml.hpp"
#include "topology/sysfs.hpp"
#include "unit/topology/files.hpp"

namespace twohop::topology {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

/// Folders and files under a temporary root, as /sys has them.
class FakeSys {
 public:
  FakeSys() { fs::create_directories(root_); }
  ~FakeSys() { fs::remove_all(root_); }
  std::string root() const { return root_; }
  void file(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  void link(const std::string& path, const std::string& target) const {
    fs::create_directories(root_ / target);
    fs::create_directories((root_ / path).parent_path());
    fs::create_symlink(root_ / target, root_ / path);
  }

 private:
  fs::path root_ = fs::temp_directory_path() / ("twohop_fake_sys_" + std::to_string(::getpid()));
};

Machine machine_of(std::initializer_list<const char*> buses, uint16_t vendor, uint32_t pci_class) {
  Machine m;
  m.numas.resize(2);
  m.numas[0].os_index = 0;
  m.numas[1].os_index = 1;
  for (const char* bus : buses) {
    PciNode node;
    node.bus = *parse_bus_id(bus);
    node.vendor = vendor;
    node.pci_class = pci_class;
    m.pci.push_back(node);
  }
  return m;
}

const NetPort* net_named(const Machine& m, const std::string& name, int port) {
  for (const NetPort& net : m.nets)
    if (net.name == name && net.port == port) return &net;
  return nullptr;
}

TEST(Live, ReadsThisMachine) {
  unsetenv("HWLOC_COMPONENTS");  // which scripts/test sets, for the sake of its sanitized runs
  const auto machine = read_live_machine();
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->kind, SourceKind::kLive);
  EXPECT_FALSE(machine->numas.empty());
  const auto ok = check_machine(*machine);
  EXPECT_TRUE(ok) << ok.error().message;
  const auto again = read_json(write_json(*machine), "t");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *machine);
}

TEST(Sysfs, GivesRatesWidthsAndNodesOfPciDevices) {
  const FakeSys sys;
  sys.file("bus/pci/devices/0000:41:00.0/class", "0x030200");
  sys.file("bus/pci/devices/0000:41:00.0/numa_node", "1");
  sys.file("bus/pci/devices/0000:41:00.0/max_link_speed", "32.0 GT/s PCIe");
  sys.file("bus/pci/devices/0000:41:00.0/max_link_width", "16");
  sys.file("bus/pci/devices/0000:41:00.0/current_link_width", "8");
  sys.file("bus/pci/devices/0000:42:00.0/numa_node", "-1");
  sys.file("bus/pci/devices/0000:42:00.0/max_link_speed", "Unknown");
  sys.file("bus/pci/devices/0000:42:00.0/current_link_width", "255");
  Machine m = machine_of({"0000:40:00.0", "0000:41:00.0", "0000:42:00.0"}, 0x10de, 0x030000);
  m.pci[0].is_port = true;
  m.pci[0].gt_per_s = 16;
  m.pci[1].parent = 0;
  Gpu gpu;
  gpu.pci = 1;
  m.gpus.push_back(gpu);
  add_sysfs(m, sys.root());
  EXPECT_EQ(m.pci[1].pci_class, 0x030200U);
  EXPECT_EQ(m.pci[1].numa, 1);
  EXPECT_EQ(m.pci[1].gt_per_s, 16) << "no faster than its port";
  EXPECT_EQ(m.pci[1].width, 8);
  EXPECT_EQ(m.gpus[0].numa, 1);
  EXPECT_EQ(m.pci[2].numa, kNone);
  EXPECT_EQ(m.pci[2].gt_per_s, 0);
  EXPECT_EQ(m.pci[2].width, 0);
}

void add_hca(const FakeSys& sys, const std::string& name, const std::string& device, const std::string& state,
             const std::string& rate, const std::string& layer, const std::string& interface) {
  const std::string port = "class/infiniband/" + name + "/ports/1/";
  sys.link("class/infiniband/" + name + "/device", device);
  sys.file("class/infiniband/" + name + "/sys_image_guid", "0002:c903:0000:1000");
  sys.file(port + "state", state);
  sys.file(port + "rate", rate);
  sys.file(port + "link_layer", layer);
  if (!interface.empty()) sys.file(port + "gid_attrs/ndevs/0", interface);
}

void add_interface(const FakeSys& sys, const std::string& name, const std::string& device) {
  sys.link("class/net/" + name, device + "/net/" + name);
  sys.file(device + "/net/" + name + "/type", "1");
}

TEST(Sysfs, GivesStateRateAndLayerOfRdmaPorts) {
  const FakeSys sys;
  add_hca(sys, "mlx5_0", "devices/pci0000:40/0000:41:00.0", "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand", "");
  add_hca(sys, "mlx5_bond_0", "devices/pci0000:40/0000:42:00.0", "1: DOWN", "25 Gb/sec (1X EDR)", "Ethernet", "bond0");
  add_interface(sys, "bond0", "devices/virtual");
  sys.file("devices/virtual/net/bond0/bonding/slaves", "ens1f0 ens1f1");
  add_interface(sys, "ens1f0", "devices/pci0000:40/0000:42:00.0");
  Machine m = machine_of({"0000:41:00.0", "0000:42:00.0"}, 0x15b3, 0x020000);
  m.pci[0].numa = 1;
  add_sysfs(m, sys.root());
  const NetPort* ib = net_named(m, "mlx5_0", 1);
  ASSERT_TRUE(ib);
  EXPECT_EQ(ib->state, LinkState::kActive);
  EXPECT_EQ(ib->gbit_per_s, 400);
  EXPECT_EQ(ib->layer, LinkLayer::kInfiniband);
  EXPECT_EQ(ib->guid, 0x2c90300001000U);
  EXPECT_EQ(ib->pci, 0);
  EXPECT_EQ(ib->numa, 1);
  const NetPort* bond = net_named(m, "mlx5_bond_0", 1);
  ASSERT_TRUE(bond);
  EXPECT_EQ(bond->state, LinkState::kDown);
  EXPECT_EQ(bond->layer, LinkLayer::kEthernet);
  EXPECT_EQ(bond->interface, "bond0");
  EXPECT_TRUE(bond->bond);
  EXPECT_THAT(bond->slaves, ElementsAre("ens1f0", "ens1f1"));
  EXPECT_FALSE(net_named(m, "ens1f0", 0)) << "the interface of an RDMA port is no port of its own";
}

TEST(Sysfs, KnowsVirtualWirelessAndBondedInterfaces) {
  const FakeSys sys;
  add_interface(sys, "eth7", "devices/virtual");
  add_interface(sys, "radio", "devices/pci0000:40/0000:41:00.0");
  sys.file("devices/pci0000:40/0000:41:00.0/net/radio/phy80211/name", "phy0");
  add_interface(sys, "uplink", "devices/virtual");
  sys.file("devices/virtual/net/uplink/bonding/slaves", "eno1 eno2");
  sys.file("devices/virtual/net/uplink/speed", "20000");
  sys.file("devices/virtual/net/uplink/operstate", "up");
  add_interface(sys, "eno1", "devices/pci0000:40/0000:42:00.0/virtio2");
  sys.file("devices/pci0000:40/0000:42:00.0/virtio2/net/eno1/speed", "-1");
  sys.file("devices/pci0000:40/0000:42:00.0/virtio2/net/eno1/operstate", "lowerlayerdown");
  sys.file("class/net/bonding_masters", "uplink");
  Machine m = machine_of({"0000:41:00.0", "0000:42:00.0"}, 0x8086, 0x020000);
  add_sysfs(m, sys.root());
  ASSERT_EQ(m.nets.size(), 4U);
  EXPECT_EQ(net_named(m, "eth7", 0)->kind, NetKind::kVirtual);
  EXPECT_EQ(net_named(m, "radio", 0)->kind, NetKind::kWireless);
  const NetPort* uplink = net_named(m, "uplink", 0);
  EXPECT_EQ(uplink->kind, NetKind::kPhysical);
  EXPECT_TRUE(uplink->bond);
  EXPECT_EQ(uplink->gbit_per_s, 20);
  EXPECT_EQ(uplink->state, LinkState::kActive);
  const NetPort* eno1 = net_named(m, "eno1", 0);
  EXPECT_EQ(eno1->kind, NetKind::kPhysical);
  EXPECT_EQ(eno1->pci, 1);
  EXPECT_EQ(eno1->gbit_per_s, 0);
  EXPECT_EQ(eno1->state, LinkState::kDown);
}

TEST(Sysfs, LeavesAMachineAloneWhereThereIsNoSys) {
  Machine m = machine_of({"0000:41:00.0"}, 0x15b3, 0x020000);
  const Machine before = m;
  add_sysfs(m, "/nonexistent");
  EXPECT_EQ(m, before);
}

Machine with_gpus(std::initializer_list<const char*> buses) {
  Machine m = machine_of(buses, 0x10de, 0x030200);
  for (size_t i = 0; i < m.pci.size(); ++i) {
    Gpu gpu;
    gpu.pci = static_cast<int>(i);
    gpu.vendor = Vendor::kNvidia;
    m.gpus.push_back(gpu);
  }
  return m;
}

TEST(Nvml, NumbersAndDescribesGpus) {
  Machine m = with_gpus({"0000:21:00.0", "0000:41:00.0", "0000:61:00.0"});
  add_nvml(m, FAKE_NVML);
  EXPECT_EQ(m.gpus[0].index, 1);
  EXPECT_EQ(m.gpus[1].index, 0);
  EXPECT_EQ(m.gpus[1].uuid, "GPU-0");
  EXPECT_EQ(m.gpus[1].model, "Fake H100");
  EXPECT_EQ(m.gpus[1].sm, 90);
  EXPECT_TRUE(m.notes.empty());
}

TEST(Nvml, FindsLinksToPeersAndSwitchesThatAreUp) {
  Machine m = with_gpus({"0000:21:00.0", "0000:41:00.0", "0000:61:00.0"});
  add_nvml(m, FAKE_NVML);
  ASSERT_EQ(m.links.size(), 4U);
  for (const GpuLink& link : m.links) {
    EXPECT_NE(link.gpu, 2);
    EXPECT_EQ(link.count, link.to_switch ? 3 : 2);
    if (!link.to_switch) {
      EXPECT_EQ(link.peer, 1 - link.gpu);
    }
  }
  name_gpus(m);
  note_missing_links(m);
  ASSERT_EQ(m.notes.size(), 1U);
  EXPECT_THAT(m.notes[0].text, HasSubstr("GPU2 has no NVLink"));
}

TEST(Nvml, AddsWhatThePciTreeLacksAndReportsWhatItDoesNotSee) {
  Machine m = with_gpus({"0000:21:00.0", "0000:99:00.0"});
  add_nvml(m, FAKE_NVML);
  EXPECT_EQ(m.gpus.size(), 4U);
  ASSERT_EQ(m.notes.size(), 1U);
  EXPECT_THAT(m.notes[0].text, HasSubstr("0000:99:00.0 is on the PCI bus and not seen by NVML"));
  name_gpus(m);
  EXPECT_EQ(m.gpus[1].name, "GPU3") << "after those that NVML numbers";
  EXPECT_TRUE(check_machine(m));
}

TEST(Nvml, SaysWhichGpuDoesNotReachAPeerAndWhy) {
  const std::vector<std::string> all{"GPU-0", "GPU-1", "GPU-2"};
  EXPECT_EQ(why_no_peer_access(FAKE_NVML, "GPU-0", all), "");
  EXPECT_EQ(why_no_peer_access(FAKE_NVML, "GPU-2", all),
            "GPU-2 and GPU-0: no P2P writes: the chipset does not support it (NVML)");
  EXPECT_EQ(why_no_peer_access(FAKE_NVML, "GPU-7", all), "") << "a GPU that it does not know";
  EXPECT_EQ(why_no_peer_access(FAKE_NVML, "GPU-2", std::vector<std::string>{"GPU-9"}), "");
  for (const char* library : {"libnvidia-ml-that-is-not-there.so.1", "libm.so.6"})
    EXPECT_EQ(why_no_peer_access(library, "GPU-2", all), "") << library;
}

TEST(Nvml, IsNotNeeded) {
  Machine m = with_gpus({"0000:21:00.0"});
  const Machine before = m;
  add_nvml(m, "libnvidia-ml-that-is-not-there.so.1");
  EXPECT_EQ(m, before);
  add_nvml(m, "libm.so.6");  // a library, but not that one
  ASSERT_EQ(m.notes.size(), 1U);
  EXPECT_THAT(m.notes[0].text, HasSubstr("has not the functions of NVML"));
}

}  // namespace
}  // namespace twohop::topology
