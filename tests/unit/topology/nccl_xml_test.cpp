// NCCL topology XML: the dialects found in the wild, and what is wrong in a file.
#include "topology/nccl_xml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/bus_id.hpp"
#include "topology/cpu_set.hpp"
#include "unit/topology/files.hpp"

namespace twohop::topology {
namespace {

using testing::HasSubstr;

Machine read(const std::string& text) {
  auto machine = read_nccl_xml(text, "t.xml");
  EXPECT_TRUE(machine) << machine.error().message;
  return machine ? *machine : Machine{};
}

Machine read_fixture(const std::string& name) {
  return read(file_text(fixture(name)));
}

std::string error_of(const std::string& text) {
  const auto machine = read_nccl_xml(text, "t.xml");
  return machine ? "no error" : machine.error().message;
}

std::string in_cpu(const std::string& inner, const std::string& attributes = "numaid=\"0\"") {
  return "<system version=\"1\">\n<cpu " + attributes + ">\n" + inner + "\n</cpu></system>";
}

const PciNode& node_of(const Machine& m, int index) {
  return m.pci.at(static_cast<size_t>(index));
}

TEST(NcclXml, ReadsADgx) {
  const Machine m = read_fixture("dgx_like.xml");
  ASSERT_EQ(m.gpus.size(), 8U);
  ASSERT_EQ(m.nets.size(), 12U);
  EXPECT_EQ(m.gpus[5].name, "GPU5");
  EXPECT_EQ(m.gpus[5].numa, 1);
  EXPECT_EQ(m.gpus[5].sm, 90);
  EXPECT_EQ(m.gpus[5].vendor, Vendor::kNvidia);
  ASSERT_EQ(m.links.size(), 8U);
  EXPECT_TRUE(m.links[0].to_switch);
  EXPECT_EQ(m.links[0].count, 18);
  EXPECT_EQ(m.nets[0].name, "mlx5_0");
  EXPECT_EQ(m.nets[0].gbit_per_s, 400);
  EXPECT_EQ(m.nets[0].kind, NetKind::kRdma);
  EXPECT_EQ(m.nets[0].layer, LinkLayer::kInfiniband);
  const PciNode& gpu = node_of(m, m.gpus[0].pci);
  EXPECT_EQ(gpu.gt_per_s, 32);
  EXPECT_EQ(gpu.width, 16);
  EXPECT_TRUE(node_of(m, gpu.parent).is_switch);
  EXPECT_EQ(to_cpu_list(m.numas[1].cpus), "32-63");
  EXPECT_EQ(to_cpu_list(m.numas[0].cpus), "0-31");
}

TEST(NcclXml, FindsGpusAndNicsByClassInAVendorsFile) {
  const Machine m = read_fixture("vendor_file.xml");
  ASSERT_EQ(m.gpus.size(), 4U);
  ASSERT_EQ(m.nets.size(), 2U);
  EXPECT_EQ(m.gpus[2].name, "GPU2");
  EXPECT_EQ(to_string(node_of(m, m.gpus[2].pci).bus), "0000:90:1c.0");
  EXPECT_EQ(m.nets[0].name, "0000:10:1b.0");
  EXPECT_EQ(m.nets[0].kind, NetKind::kRdma);
  EXPECT_EQ(m.nets[0].state, LinkState::kUnknown);
  EXPECT_EQ(m.nets[0].gbit_per_s, 0);
}

TEST(NcclXml, NumbersGpusOfAVendorsFileByBusId) {
  const Machine m =
      read(in_cpu("<pci busid=\"0003:00:00.0\" class=\"0x030200\"/><pci busid=\"0001:00:00.0\" class=\"0x030200\"/>"));
  ASSERT_EQ(m.gpus.size(), 2U);
  EXPECT_EQ(m.gpus[0].name, "GPU0");
  EXPECT_EQ(to_string(node_of(m, m.gpus[0].pci).bus), "0001:00:00.0");
  EXPECT_EQ(to_string(node_of(m, m.gpus[1].pci).bus), "0003:00:00.0");
}

TEST(NcclXml, KnowsClassesThatAreNoGpusOrRails) {
  const Machine m = read(in_cpu(R"(<pci busid="02:00.0" class="0x030000" vendor="0x1a03"/>
    <pci busid="03:00.0" class="0x020000" vendor="0x1d0f" device="0xec20"/>
    <pci busid="04:00.0" class="0x020000" vendor="0x1d0f" device="0xefa1"/>
    <pci busid="05:00.0" class="0x028000"/><pci busid="06:00.0" class="0x010802"/>)"));
  EXPECT_TRUE(m.gpus.empty());
  ASSERT_EQ(m.nets.size(), 3U);
  EXPECT_EQ(m.nets[0].kind, NetKind::kPhysical);
  EXPECT_EQ(m.nets[1].kind, NetKind::kOtherRdma);
  EXPECT_EQ(m.nets[2].kind, NetKind::kWireless);
}

TEST(NcclXml, TellsInterfacesFromRdmaDevices) {
  const Machine m = read_fixture("no_nic.xml");
  ASSERT_EQ(m.nets.size(), 4U);
  EXPECT_EQ(m.nets[0].kind, NetKind::kPhysical);
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(m.nets[i].kind, NetKind::kVirtual) << m.nets[i].name;
  ASSERT_EQ(m.links.size(), 2U);
  EXPECT_EQ(m.links[0].peer, 1);
  EXPECT_EQ(m.links[1].peer, 0);
  EXPECT_EQ(m.links[0].count, 4);
}

TEST(NcclXml, TakesUnknownNamesWithAPortForRdma) {
  const Machine m = read(in_cpu(R"(<pci busid="02:00.0" class="0x020000"><nic>
      <net name="weird_0" port="1" maxconn="131072" speed="100000"/>
      <net name="ibp2s0" port="0" maxconn="65536"/><net name="cxi0" port="1"/><net name="bnxt_re3" port="1"/>
      <net name="mlx5_bond_0" port="1"/><net name="bond0" port="0"/></nic></pci>)"));
  ASSERT_EQ(m.nets.size(), 6U);
  EXPECT_EQ(m.nets[0].kind, NetKind::kRdma);
  EXPECT_EQ(m.nets[1].kind, NetKind::kPhysical);
  EXPECT_EQ(m.nets[2].kind, NetKind::kOtherRdma);
  EXPECT_EQ(m.nets[3].layer, LinkLayer::kEthernet);
  EXPECT_TRUE(m.nets[4].bond);
  EXPECT_EQ(m.nets[4].kind, NetKind::kRdma);
  EXPECT_TRUE(m.nets[5].bond);
  EXPECT_EQ(m.nets[5].kind, NetKind::kPhysical);
}

TEST(NcclXml, KnowsOneInterfaceListedUnderEveryCpuAsOneDeviceOfNone) {
  const std::string nic = R"(<nic><net name="eth0" port="0" speed="10000"/></nic>)";
  const Machine m =
      read("<system><cpu numaid=\"0\">" + nic + nic + "</cpu><cpu numaid=\"1\">" + nic + "</cpu></system>");
  ASSERT_EQ(m.nets.size(), 1U);
  EXPECT_EQ(m.nets[0].numa, kNone);
  ASSERT_EQ(m.notes.size(), 1U);
  EXPECT_THAT(m.notes[0].text, HasSubstr("2 entries"));
}

TEST(NcclXml, LivesWithoutNumaAndAffinity) {
  const Machine m = read_fixture("cloud_flat.xml");
  ASSERT_EQ(m.numas.size(), 1U);
  EXPECT_EQ(m.numas[0].os_index, kNone);
  EXPECT_TRUE(m.numas[0].cpus.empty());
  EXPECT_EQ(m.nets.back().name, "eth0");
  EXPECT_EQ(m.nets.back().pci, kNone);
}

TEST(NcclXml, ReadsAmdsLinksAndNames) {
  const Machine m = read(in_cpu(
      R"(<pci busid="11:00.0" class="0x120000" vendor="0x1002"><gpu dev="1" sm="304" gcn="gfx942" arch="38911" rank="0">
      <xgmi target="0000:21:00.0" count="1" tclass="0x120000"/></gpu></pci>
    <pci busid="21:00.0" class="0x120000" vendor="0x1d94"><gpu dev="0" sm="304" gcn="gfx942" arch="38911" rank="1"/></pci>)"));
  ASSERT_EQ(m.gpus.size(), 2U);
  EXPECT_EQ(m.gpus[1].name, "GPU1") << "in the order of dev, not of the file";
  EXPECT_EQ(m.gpus[1].gcn, "gfx942");
  EXPECT_EQ(m.gpus[1].vendor, Vendor::kAmd);
  EXPECT_EQ(m.gpus[0].vendor, Vendor::kHygon);
  ASSERT_EQ(m.links.size(), 1U);
  EXPECT_EQ(m.links[0].kind, GpuLinkKind::kXgmi);
  EXPECT_EQ(m.links[0].gpu, 1);
  EXPECT_EQ(m.links[0].peer, 0);
}

TEST(NcclXml, KeepsSeveralGpusOfOnePciFunctionApart) {
  const Machine m = read(in_cpu(
      R"(<pci busid="0002:81:00.0" class="0x030200"><gpu dev="0" sm="107" mlopart="0"><c2c bw="56376" count="7"/></gpu>
      <gpu dev="0" sm="107" mlopart="1"/></pci>)"));
  ASSERT_EQ(m.gpus.size(), 2U);
  EXPECT_EQ(m.gpus[0].name, "GPU0.0");
  EXPECT_EQ(m.gpus[1].name, "GPU0.1");
  ASSERT_EQ(m.links.size(), 1U);
  EXPECT_EQ(m.links[0].kind, GpuLinkKind::kC2c);
  EXPECT_NEAR(m.links[0].gbit_per_s, 56.376 * 7 * 8, 1e-9);
}

TEST(NcclXml, ReadsNicsInsideAHostBridge) {
  const Machine m =
      read(in_cpu(R"(<pci busid="0000:00:00.0" class="0x060000"><nic><net name="mlx5_0" port="1"/></nic></pci>)"));
  ASSERT_EQ(m.pci.size(), 1U);
  EXPECT_TRUE(m.pci[0].host_bridge);
  EXPECT_FALSE(m.pci[0].is_switch);
  EXPECT_EQ(m.nets[0].pci, 0);
}

TEST(NcclXml, AddsUpLinksToSwitchesAndReportsTheLost) {
  const Machine m = read(in_cpu(R"(<pci busid="11:00.0" class="0x030200"><gpu dev="0" sm="90">
      <nvlink target="0000:1c:00.0" count="5" tclass="0x068000"/><nvlink target="0000:1b:00.0" count="4" tclass="0x068000"/>
      <nvlink target="0000:77:00.0" count="2" tclass="0x030200"/></gpu></pci>)"));
  ASSERT_EQ(m.links.size(), 1U);
  EXPECT_TRUE(m.links[0].to_switch);
  EXPECT_EQ(m.links[0].count, 9);
  ASSERT_EQ(m.notes.size(), 1U);
  EXPECT_THAT(m.notes[0].text, HasSubstr("0000:77:00.0"));
}

TEST(NcclXml, WarnsOfAGpuWithoutNvlinkAmongOthersThatHaveIt) {
  std::string inner;
  for (int i = 0; i < 4; ++i)
    inner += "<pci busid=\"1" + std::to_string(i) + ":00.0\" class=\"0x030200\"><gpu dev=\"" + std::to_string(i) +
             "\" sm=\"90\">" + (i == 2 ? "" : R"(<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>)") +
             "</gpu></pci>";
  const Machine m = read(in_cpu(inner));
  ASSERT_EQ(m.notes.size(), 1U);
  EXPECT_EQ(m.notes[0].level, Note::Level::kWarning);
  EXPECT_THAT(m.notes[0].text, HasSubstr("GPU2 has no NVLink"));
}

TEST(NcclXml, UsesTheFirstOfSeveralHosts) {
  const Machine m = read(R"(<system><cpu host_hash="0x1" numaid="0"><pci busid="11:00.0"/></cpu>
    <cpu host_hash="0x2" numaid="0"><pci busid="12:00.0"/></cpu></system>)");
  EXPECT_EQ(m.pci.size(), 1U);
  ASSERT_FALSE(m.notes.empty());
  EXPECT_THAT(m.notes[0].text, HasSubstr("several hosts"));
}

TEST(NcclXml, SkipsUnknownElementsAndSaysSoOnce) {
  const Machine m =
      read(in_cpu("<thing/><thing/><pci busid=\"11:00.0\" class=\"0x030200\"><other><pci busid=\"x\"/></other></pci>"));
  EXPECT_EQ(m.pci.size(), 1U);
  EXPECT_EQ(m.notes.size(), 2U);
}

TEST(NcclXml, SaysWhereAndWhatIsWrong) {
  EXPECT_EQ(error_of(in_cpu("<pci busid=\"banana\"/>")),
            "t.xml:3: <pci>: busid=\"banana\": a bus id looks like 0000:3b:00.0");
  EXPECT_THAT(error_of(in_cpu("<pci/>")), HasSubstr("t.xml:3: <pci>: busid=\"\""));
  EXPECT_THAT(error_of(in_cpu("", "numaid=\"many\"")),
              HasSubstr("t.xml:2: <cpu>: numaid=\"many\": a number from -1 to 1000000"));
  EXPECT_THAT(error_of(in_cpu("", "numaid=\"0\" affinity=\"zz\"")), HasSubstr("affinity=\"zz\""));
  EXPECT_THAT(error_of(in_cpu("<nic><net name=\"a\" speed=\"-5\"/></nic>")), HasSubstr("speed=\"-5\""));
  EXPECT_THAT(error_of(in_cpu("<nic><net name=\"a\" speed=\"1e300\"/></nic>")),
              HasSubstr("no error"));  // 1, and a unit
  EXPECT_THAT(error_of(in_cpu("<pci busid=\"11:00.0\"><gpu dev=\"0\"><nvlink count=\"99999999999\"/></gpu></pci>")),
              HasSubstr("count="));
  EXPECT_THAT(error_of(in_cpu("<pci busid=\"11:00.0\" class=\"0x1234567\"/>")), HasSubstr("class="));
  EXPECT_THAT(error_of("<nonsense/>"), HasSubstr("begins with <system>"));
}

TEST(NcclXml, RefusesHostileXml) {
  EXPECT_THAT(
      error_of("<!DOCTYPE s [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><system><cpu numaid=\"&b;\"/></system>"),
      HasSubstr("DOCTYPE declares entities"));
  std::string deep = "<system>";
  for (int i = 0; i < 100'000; ++i) deep += "<cpu>";
  for (int i = 0; i < 100'000; ++i) deep += "</cpu>";
  EXPECT_THAT(error_of(deep + "</system>"), HasSubstr("nested more than"));
  EXPECT_THAT(error_of(std::string("<system>\n\0</system>", 19)), HasSubstr("t.xml:2: a NUL byte"));
  EXPECT_THAT(error_of("<system>\n<cpu numaid=\"0\">"), HasSubstr("not well-formed"));
  std::string many = "<system>";
  for (int i = 0; i < 1'000'000; ++i) many += "<a/>";
  EXPECT_THAT(error_of(many + "</system>"), HasSubstr("tags"));
  EXPECT_THAT(error_of(std::string(17U << 20, ' ')), HasSubstr("bytes"));
}

TEST(NcclXml, TakesHundredsOfNicsAndMore) {
  std::string inner;
  for (int i = 0; i < 5000; ++i)
    inner += fmt::format(
        "<pci busid=\"{:x}:00:00.0\" class=\"0x020700\"><nic><net name=\"mlx5_{}\" port=\"1\"/></nic></pci>", i, i);
  const Machine m = read(in_cpu(inner));
  EXPECT_EQ(m.nets.size(), 5000U);
  EXPECT_TRUE(write_nccl_xml(m));
}

}  // namespace
}  // namespace twohop::topology
