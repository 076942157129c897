// A topology file against the live machine, and what is believed of both.
#include "topology/compare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/bus_id.hpp"
#include "topology/cpu_set.hpp"
#include "topology/finish.hpp"
#include "topology/load.hpp"
#include "unit/topology/files.hpp"

namespace twohop::topology {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

auto note_with(const std::string& text) {
  return Contains(Field(&Note::text, HasSubstr(text)));
}

/// The machine of vendor_file.xml as its guest sees it: one flat bus, two NUMA nodes, ports with names and rates.
Machine flat_guest() {
  Machine m;
  m.source = "this machine";
  m.numas.resize(2);
  for (int i = 0; i < 2; ++i) {
    m.numas[static_cast<size_t>(i)].os_index = i;
    m.numas[static_cast<size_t>(i)].cpus = {{16 * i, 16 * i + 15}};
  }
  PciNode bridge;
  bridge.host_bridge = true;
  m.pci.push_back(bridge);
  for (const char* bus : {"10:1c.0", "10:1d.0", "10:1b.0", "90:1c.0", "90:1d.0", "90:1b.0"}) {
    PciNode node;
    node.bus = *parse_bus_id(bus);
    node.parent = 0;
    node.numa = node.bus.bus == 0x10 ? 0 : 1;
    const bool gpu = node.bus.device != 0x1b;
    node.pci_class = gpu ? 0x030200 : 0x020700;
    node.vendor = gpu ? 0x10de : 0x15b3;
    node.gt_per_s = 16;
    node.width = 16;
    m.pci.push_back(node);
    const int index = static_cast<int>(m.pci.size()) - 1;
    if (gpu) {
      Gpu g;
      g.pci = index;
      g.numa = node.numa;
      g.vendor = Vendor::kNvidia;
      g.uuid = "GPU-" + std::to_string(m.gpus.size());
      m.gpus.push_back(g);
    } else {
      NetPort net;
      net.name = "mlx5_" + std::to_string(m.nets.size());
      net.pci = index;
      net.numa = node.numa;
      net.gbit_per_s = 200;
      net.state = LinkState::kActive;
      m.nets.push_back(net);
    }
  }
  name_gpus(m);
  m.links.push_back({0, 3, false, GpuLinkKind::kNvlink, 4, 0});
  return m;
}

Machine vendor_file() {
  return *load_machine(fixture("vendor_file.xml"));
}

std::string bus_of(const Machine& m, int pci) {
  return to_string(m.pci.at(static_cast<size_t>(pci)).bus);
}

TEST(Compare, FindsNothingWrongWithAFileThatIsRight) {
  const Comparison c = compare(vendor_file(), flat_guest());
  EXPECT_TRUE(c.credible);
  EXPECT_THAT(c.notes, IsEmpty());
}

TEST(Compare, DoesNotBelieveAFileWithGpusThatAreNotThere) {
  Machine live = flat_guest();
  live.pci[1].bus.bus = 0x11;
  const Comparison c = compare(vendor_file(), live);
  EXPECT_FALSE(c.credible);
  EXPECT_THAT(c.notes, note_with("its GPU at 0000:10:1c.0 does not exist here"));
  EXPECT_THAT(c.notes, note_with("it lacks the GPU at 0000:11:1c.0"));
}

TEST(Compare, DoesNotBelieveAFileThatTakesANicForAGpu) {
  Machine file = vendor_file();
  for (PciNode& node : file.pci) {
    if (node.bus == *parse_bus_id("10:1c.0"))
      node.bus = *parse_bus_id("10:1b.0");
    else if (node.bus == *parse_bus_id("10:1b.0"))
      node.bus = *parse_bus_id("10:1c.0");
  }
  const Comparison c = compare(file, flat_guest());
  EXPECT_FALSE(c.credible);
  EXPECT_THAT(c.notes, note_with("its GPU at 0000:10:1b.0 is a NIC (15b3:0000, class 0x020700) here"));
  EXPECT_THAT(c.notes, note_with("at 0000:10:1c.0 is a GPU"));
}

TEST(Compare, DoesNotBelieveASwitchOnTwoNumaNodes) {
  Machine live = flat_guest();
  live.pci[2].numa = 1;  // 10:1d.0
  const Comparison c = compare(vendor_file(), live);
  EXPECT_FALSE(c.credible);
  EXPECT_THAT(c.notes, note_with("under one PCI switch, but here they are on NUMA nodes 0 and 1"));
}

TEST(Compare, ReportsWhatTheKernelKnowsBetter) {
  Machine live = flat_guest();
  live.pci[1].gt_per_s = 8;
  live.numas[1].cpus = {{0, 3}};
  for (size_t i = 1; i < 4; ++i) live.pci[i].numa = 1;
  const Comparison c = compare(vendor_file(), live);
  EXPECT_TRUE(c.credible);
  EXPECT_THAT(c.notes, note_with("the PCIe link of 0000:10:1c.0 is 16 GT/s x16 in it and 8 GT/s x16 here"));
  EXPECT_THAT(c.notes, note_with("0000:10:1c.0 is on NUMA node 0 in it and on 1 here"));
  EXPECT_THAT(c.notes, note_with("NUMA node 1 has the CPUs 16-31 in it and 0-3 here"));
}

TEST(Compare, ReportsOtherRatesAndPlacesOfPorts) {
  Machine file = flat_guest();
  file.nets[0].gbit_per_s = 100;
  std::swap(file.nets[0].pci, file.nets[1].pci);
  const Comparison c = compare(file, flat_guest());
  EXPECT_THAT(c.notes, note_with("mlx5_0 port 1 has 100 Gbit/s in it and 200 here"));
  EXPECT_THAT(c.notes, note_with("mlx5_0 is at 0000:90:1b.0 in it and at 0000:10:1b.0 here"));
}

TEST(Compare, CutsLongListsOfOneKind) {
  Machine file = flat_guest(), live = flat_guest();
  for (size_t i = 1; i < live.pci.size(); ++i) live.pci[i].width = 8;
  const Comparison c = compare(file, live);
  EXPECT_EQ(c.notes.size(), 5U);
  EXPECT_THAT(c.notes, note_with("2 more contradictions"));
}

TEST(Reconcile, TakesTheTreeOfTheFileAndTheRestFromTheKernel) {
  Machine live = flat_guest();
  live.numas[0].cpus = {{0, 7}};
  const Reconciled r = reconcile(vendor_file(), live);
  ASSERT_TRUE(r.file_used);
  const Machine& m = r.machine;
  const auto ok = check_machine(m);
  EXPECT_TRUE(ok) << ok.error().message;
  ASSERT_EQ(m.gpus.size(), 4U);
  ASSERT_EQ(m.nets.size(), 2U);
  EXPECT_EQ(m.nets[0].name, "mlx5_0");
  EXPECT_EQ(m.nets[0].gbit_per_s, 200);
  EXPECT_EQ(bus_of(m, m.nets[0].pci), "0000:10:1b.0");
  EXPECT_EQ(m.gpus[0].uuid, "GPU-0");
  const int gpu_switch = m.pci[static_cast<size_t>(m.gpus[0].pci)].parent,
            net_switch = m.pci[static_cast<size_t>(m.nets[0].pci)].parent;
  EXPECT_EQ(gpu_switch, net_switch) << "the file's switch";
  EXPECT_TRUE(m.pci[static_cast<size_t>(gpu_switch)].is_switch);
  EXPECT_EQ(to_cpu_list(m.numas[0].cpus), "0-7") << "the kernel's affinity";
  EXPECT_THAT(m.notes, note_with("the kernel's are used"));
  ASSERT_EQ(m.links.size(), 1U);
  EXPECT_EQ(m.links[0].peer, 3);
}

TEST(Reconcile, MovesTheFilesSwitchesToTheKernelsNodes) {
  Machine live = flat_guest();
  for (size_t i = 1; i < live.pci.size(); ++i) live.pci[i].numa = i < 4 ? 1 : 0;
  const Machine m = reconcile(vendor_file(), live).machine;
  EXPECT_EQ(m.numas[static_cast<size_t>(m.gpus[0].numa)].os_index, 1);
  EXPECT_EQ(m.numas[static_cast<size_t>(m.pci[0].numa)].os_index, 1) << "a switch that only the file knows";
}

TEST(Reconcile, BringsAlongWhatTheFileLacks) {
  Machine live = flat_guest();
  PciNode nic = live.pci[3];
  nic.bus = *parse_bus_id("20:00.0");
  live.pci.push_back(nic);
  NetPort net;
  net.name = "mlx5_9";
  net.pci = static_cast<int>(live.pci.size()) - 1;
  live.nets.push_back(net);
  const Reconciled r = reconcile(vendor_file(), live);
  ASSERT_TRUE(r.file_used);
  ASSERT_EQ(r.machine.nets.size(), 3U);
  EXPECT_EQ(bus_of(r.machine, r.machine.nets[2].pci), "0000:20:00.0");
  EXPECT_TRUE(check_machine(r.machine));
}

TEST(Reconcile, KeepsAPortWhoseDriverIsNotLoadedAndSaysSo) {
  Machine live = flat_guest();
  live.nets.pop_back();
  const Machine m = reconcile(vendor_file(), live).machine;
  ASSERT_EQ(m.nets.size(), 2U);
  EXPECT_EQ(m.nets[1].name, "0000:90:1b.0");
  EXPECT_THAT(m.notes, note_with("is its driver loaded?"));
}

TEST(Reconcile, UsesTheLiveMachineWhereTheFileIsOfAnother) {
  const Machine live = flat_guest();
  const Reconciled r = reconcile(*load_machine(fixture("dgx_like.xml")), live);
  EXPECT_FALSE(r.file_used);
  EXPECT_EQ(r.machine.gpus, live.gpus);
  EXPECT_EQ(r.machine.pci, live.pci);
  EXPECT_THAT(r.machine.notes, note_with("it does not describe this machine and is not used"));
}

TEST(Reconcile, UsesNoMatrix) {
  const auto matrix = parse_machine("\tGPU0\tNIC0\nGPU0\t X \tPIX\nNIC0\tPIX\t X \n", "m.txt");
  const Reconciled r = reconcile(*matrix, flat_guest());
  EXPECT_FALSE(r.file_used);
  EXPECT_THAT(r.machine.notes, note_with("it has no bus ids"));
}

TEST(Reconcile, AgreesWithAMachineAboutItself) {
  const Machine live = flat_guest();
  const Reconciled r = reconcile(live, live);
  EXPECT_TRUE(r.file_used);
  EXPECT_THAT(r.machine.notes, IsEmpty());
  EXPECT_EQ(r.machine.gpus, live.gpus);
  EXPECT_EQ(r.machine.pci, live.pci);
  EXPECT_EQ(r.machine.links, live.links);
}

TEST(Reconcile, RefusesThePublicFileThatTakesNicsForGpus) {
  const auto file = load_machine(shared_topologies("nccl_xml") / "aws_p5_contrib_2026.xml");
  const auto live = load_machine(shared_topologies("hwloc_xml") / "aws_p5.xml");
  if (!file || !live) GTEST_SKIP() << "the public topology files are not beside this checkout: " << SHARED_TOPOLOGIES;
  const Reconciled r = reconcile(*file, *live);
  EXPECT_FALSE(r.file_used);
  EXPECT_THAT(r.machine.notes, note_with("its GPU at 0000:4f:00.0 is a NIC (1d0f:efa1"));
  EXPECT_EQ(r.machine.gpus.size(), 8U);
}

}  // namespace
}  // namespace twohop::topology
