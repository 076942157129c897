// NCCL topology XML that is written: reading it again gives the same machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/nccl_xml.hpp"
#include "unit/topology/files.hpp"

namespace twohop::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Machine read(const std::string& text) {
  auto machine = read_nccl_xml(text, "t.xml");
  EXPECT_TRUE(machine) << machine.error().message;
  return machine ? *machine : Machine{};
}

Machine read_fixture(const std::string& name) {
  return read(file_text(fixture(name)));
}

std::string in_cpu(const std::string& inner, const std::string& attributes = "numaid=\"0\"") {
  return "<system version=\"1\">\n<cpu " + attributes + ">\n" + inner + "\n</cpu></system>";
}

void expect_round_trip(const Machine& m) {
  const auto text = write_nccl_xml(m);
  ASSERT_TRUE(text) << text.error().message;
  auto again = read_nccl_xml(*text, m.source);
  ASSERT_TRUE(again) << again.error().message << *text;
  again->notes = m.notes;  // of the first reading
  EXPECT_EQ(*again, m) << *text;
}

TEST(NcclXml, IsWrittenWithoutLoss) {
  for (const auto& path : files_in(TOPOLOGY_FIXTURES)) {
    if (path.extension() != ".xml") continue;
    SCOPED_TRACE(path);
    const auto machine = read_nccl_xml(file_text(path), "t.xml");
    if (machine) expect_round_trip(*machine);
  }
}

TEST(NcclXml, KeepsWhatNcclHasNoPlaceFor) {
  Machine m = read_fixture("dual_port.xml");
  m.nets[0].state = LinkState::kActive;
  m.nets[1].state = LinkState::kDown;
  m.nets[0].interface = "ens1f0";
  m.nets[1].bond = true;
  m.nets[1].slaves = {"ens1f0", "ens1f1"};
  m.nets[1].layer = LinkLayer::kInfiniband;
  m.gpus[0].uuid = "GPU-1";
  m.gpus[1].model = "Model <\"&>";
  m.gpus[1].integrated = true;
  m.links.push_back({0, kNone, false, GpuLinkKind::kNvlink, 3, 0});  // to a CPU
  m.pci[0].gt_per_s = 2.5;
  expect_round_trip(m);
}

TEST(NcclXml, KeepsTheTargetOfALinkToOneOfSeveralGpusAtABusId) {
  const Machine m = read(in_cpu(R"(<pci busid="11:00.0" class="0x120000"><gpu dev="1">
      <xgmi target="0000:21:00.0" count="1" tclass="0x120000"/></gpu></pci>
    <pci busid="21:00.0" class="0x120000"><gpu dev="0" mlopart="1"/><gpu dev="0" mlopart="0"/></pci>)"));
  ASSERT_EQ(m.links.size(), 1U);
  EXPECT_EQ(m.gpus.at(static_cast<size_t>(m.links[0].peer)).name, "GPU0.0") << "the first by number, not in the file";
  expect_round_trip(m);
}

TEST(NcclXml, KeepsTheTargetOfALinkToAGpuWithTheClassOfACpuOrSwitch) {
  for (const std::string bus : {"0000:21:00.0", "fffffff:ff:ff.0", "fffffff:ff:fe.0"})
    for (const std::string device_class : {"0x030200", "0x068000", "0x068001"}) {
      SCOPED_TRACE(bus + " " + device_class);
      expect_round_trip(read(in_cpu(R"(<pci busid="11:00.0" class="0x030200"><gpu dev="0">
          <nvlink count="1" target=")" +
                                    bus + R"("/><nvlink count="2" target="44:00.0" tclass="0x068000"/>
          <nvlink count="4" target="55:00.0" tclass="0x068001"/></gpu></pci>
        <pci busid=")" + bus + "\" class=\"" +
                                    device_class + R"("><gpu dev="1"/></pci>)")));
    }
}

TEST(NcclXml, KeepsHostBridgesAndUnlocatedDevices) {
  Machine m;
  m.kind = SourceKind::kNcclXml;
  m.source = "t.xml";
  PciNode bridge, device;
  bridge.bus = {0, 0x44, 0, 0};
  bridge.host_bridge = true;
  device.bus = {0, 0x45, 0, 0};
  device.parent = 0;
  device.pci_class = 0x020700;
  m.pci = {bridge, device};
  NetPort net;
  net.name = "mlx5_0";
  net.dev = 0;
  net.pci = 1;
  net.layer = LinkLayer::kInfiniband;
  m.nets = {net};
  expect_round_trip(m);
}

TEST(NcclXml, KeepsUnlocatedDevicesThatAreNotAtTheEnd) {
  const std::string device = R"(<pci busid="0000:{0}0:00.0" class="0x060400"><pci busid="0000:{0}1:00.0"
      class="0x030200"><gpu dev="0"/></pci><pci busid="0000:{0}2:00.0" class="0x020700"><nic><net name="mlx5_{0}"/></nic>
      </pci></pci><nic><net name="eth{0}" port="0"/></nic>)";
  std::string text = "<system>";
  for (int i = 0; i < 4; ++i)
    text += fmt::format("<cpu numaid=\"{}\" unlocated=\"{}\">{}</cpu>", i, i % 2 == 0 ? 1 : 0,
                        fmt::format(fmt::runtime(device), i));
  const Machine m = read(text + "</system>");
  EXPECT_EQ(m.numas.size(), 2U);
  EXPECT_EQ(m.gpus.size(), 4U);
  expect_round_trip(m);
}

TEST(NcclXml, KeepsTheOrderOfPortsThatAreListedInSeveralPlaces) {
  const Machine m = read(R"(<system><cpu numaid="0"><nic><net name="mlx5_0"/><net name="eth0"/></nic></cpu>
    <cpu numaid="1"><pci busid="11:00.0" class="0x020700"><nic><net name="mlx5_1"/></nic></pci>
    <pci busid="12:00.0" class="0x020700"><nic><net name="mlx5_0"/></nic></pci><nic><net name="eth0"/><net name="eth1"/>
    </nic></cpu></system>)");
  std::vector<std::string> names;
  for (const NetPort& net : m.nets) names.push_back(net.name);
  EXPECT_THAT(names, ElementsAre("mlx5_1", "mlx5_0", "eth1", "eth0"));
  expect_round_trip(m);
}

TEST(NcclXml, KeepsTheSmallestRates) {
  expect_round_trip(
      read(in_cpu(R"(<pci busid="11:00.0" class="0x030200" link_speed="0.0000003 GT/s"><gpu dev="0"><c2c bw="0.00001"/>
      </gpu><nic><net name="mlx5_0" speed="0.00001" latency="0.00000000002"/></nic></pci>)")));
}

TEST(NcclXml, NumbersPortsWithinWhatItReads) {
  const Machine m = read(in_cpu(R"(<nic><net name="a" dev="1000000"/><net name="b"/><net name="c" dev="0"/></nic>)"));
  ASSERT_EQ(m.nets.size(), 3U);
  EXPECT_EQ(m.nets[1].dev, 1);
  expect_round_trip(m);
}

TEST(NcclXml, LeavesPortsOfSwitchesOut) {
  Machine m;
  for (int i = 0; i < 3; ++i) {
    PciNode node;
    node.bus.bus = static_cast<uint8_t>(i + 1);
    node.parent = i - 1;
    node.is_port = i == 1;
    node.is_switch = i == 0;
    node.pci_class = i == 2 ? 0x030200 : 0x060400;
    m.pci.push_back(node);
  }
  Gpu gpu;
  gpu.pci = 2;
  m.gpus.push_back(gpu);
  const Machine again = read(*write_nccl_xml(m));
  ASSERT_EQ(again.pci.size(), 2U);
  EXPECT_EQ(again.pci[1].parent, 0);
}

TEST(NcclXml, RefusesToWriteAMachineWithoutATree) {
  Machine m;
  m.source = "matrix.txt";
  m.given.emplace();
  const auto text = write_nccl_xml(m);
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message, HasSubstr("write JSON"));
}

TEST(NcclXml, KeepsAllPublicFiles) {
  const auto files = files_in(shared_topologies("nccl_xml"));
  if (files.empty()) GTEST_SKIP() << "the public topology files are not beside this checkout: " << SHARED_TOPOLOGIES;
  for (const auto& path : files) {
    SCOPED_TRACE(path);
    const std::string text = file_text(path);
    if (text.empty()) continue;
    const auto machine = read_nccl_xml(text, path.filename());
    ASSERT_TRUE(machine) << machine.error().message;
    expect_round_trip(*machine);
  }
}

}  // namespace
}  // namespace twohop::topology
