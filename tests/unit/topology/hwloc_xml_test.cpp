// hwloc XML of all versions: locality, GPUs, ports of RDMA devices, links.
#include "topology/hwloc_xml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "topology/bus_id.hpp"
#include "topology/cpu_set.hpp"
#include "topology/nccl_xml.hpp"
#include "unit/topology/files.hpp"

namespace twohop::topology {
namespace {

using testing::HasSubstr;

Machine read(const std::string& text) {
  auto machine = read_hwloc_xml(text, "t.xml");
  EXPECT_TRUE(machine) << machine.error().message;
  return machine ? *machine : Machine{};
}

std::string error_of(const std::string& text) {
  const auto machine = read_hwloc_xml(text, "t.xml");
  return machine ? "no error" : machine.error().message;
}

std::string bridge(const std::string& bus, const std::string& inner) {
  return "<object type=\"Bridge\" bridge_type=\"1-1\" pci_busid=\"" + bus +
         "\" pci_type=\"0604 [1000:c030] [0000:0000] 00\">" + inner + "</object>";
}

std::string device(const std::string& bus, const std::string& type, const std::string& inner = "",
                   const std::string& id = "0") {
  return "<object type=\"PCIDev\" gp_index=\"" + id + "\" pci_busid=\"" + bus + "\" pci_type=\"" + type +
         " [0000:0000] 00\" pci_link_speed=\"31.507692\">" + inner + "</object>";
}

std::string host_bridge(const std::string& buses, const std::string& inner) {
  return "<object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"" + buses + "\">" + inner + "</object>";
}

constexpr const char* kGpu = "0302 [10de:2330]";
constexpr const char* kHca = "0207 [15b3:1021]";

/// Two packages with a NUMA node each; `first` and `second` are inside them, `loose` in the machine.
std::string two_packages(const std::string& first, const std::string& second, const std::string& loose = "",
                         const std::string& after = "") {
  const auto package = [](int i, const std::string& cpus, const std::string& nodes, const std::string& inner) {
    const std::string sets = "cpuset=\"" + cpus + "\" nodeset=\"" + nodes + "\"";
    return "<object type=\"Package\" os_index=\"" + std::to_string(i) + "\" " + sets +
           "><info name=\"CPUVendor\" value=\"AuthenticAMD\"/><info name=\"CPUFamilyNumber\" value=\"25\"/>"
           "<object type=\"NUMANode\" os_index=\"" +
           std::to_string(i) + "\" " + sets + "/>" + inner + "</object>";
  };
  return "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology version=\"2.0\"><object type=\"Machine\" cpuset=\"0xff\" "
         "nodeset=\"0x3\">"
         "<info name=\"Architecture\" value=\"x86_64\"/>" +
         package(0, "0x0000000f", "0x1", first) + package(1, "0x000000f0", "0x2", second) + loose + "</object>" +
         after + "</topology>";
}

TEST(HwlocXml, PutsDevicesOnTheirNumaNodes) {
  const Machine m = read(two_packages(host_bridge("0000:[00-03]", device("0000:03:00.0", kGpu)),
                                      host_bridge("0000:[80-83]", device("0000:83:00.0", kGpu)),
                                      host_bridge("0000:[c0-c3]", device("0000:c3:00.0", kGpu))));
  ASSERT_EQ(m.numas.size(), 2U);
  EXPECT_EQ(to_cpu_list(m.numas[1].cpus), "4-7");
  EXPECT_EQ(m.numas[1].package, 1);
  EXPECT_EQ(m.numas[1].arch, "x86_64");
  EXPECT_EQ(m.numas[1].vendor, "AuthenticAMD");
  EXPECT_EQ(m.numas[1].family, 25);
  ASSERT_EQ(m.gpus.size(), 3U);
  EXPECT_EQ(m.gpus[0].numa, 0);
  EXPECT_EQ(m.gpus[1].numa, 1);
  EXPECT_EQ(m.gpus[2].numa, kNone);
  const PciNode& gpu = m.pci[static_cast<size_t>(m.gpus[1].pci)];
  EXPECT_EQ(gpu.gt_per_s, 16);
  EXPECT_EQ(gpu.width, 16);
  const PciNode& root = m.pci[static_cast<size_t>(gpu.parent)];
  EXPECT_TRUE(root.host_bridge);
  EXPECT_EQ(to_string(root.bus), "0000:80:00.0");
}

TEST(HwlocXml, TellsSwitchesFromTheirPorts) {
  const Machine m = read(two_packages(
      host_bridge(
          "0000:[00-09]",
          bridge("0000:00:01.0", bridge("0000:01:00.0", bridge("0000:02:00.0", device("0000:03:00.0", kGpu)) +
                                                            bridge("0000:02:01.0", device("0000:04:00.0", kHca))))),
      ""));
  ASSERT_EQ(m.pci.size(), 7U);
  EXPECT_TRUE(m.pci[0].host_bridge);
  EXPECT_TRUE(m.pci[1].is_port && !m.pci[1].is_switch) << "a root port";
  EXPECT_TRUE(m.pci[2].is_switch && !m.pci[2].is_port) << "the upstream port stands for the switch";
  EXPECT_TRUE(m.pci[3].is_port && !m.pci[3].is_switch) << "a downstream port";
  EXPECT_FALSE(m.pci[4].is_port || m.pci[4].is_switch);
}

TEST(HwlocXml, IsWrittenAsNcclXmlWithOneElementPerSwitch) {
  const Machine m = read(two_packages(
      host_bridge("0000:[00-09]",
                  bridge("0000:00:01.0", bridge("0000:01:00.0", bridge("0000:02:00.0", device("0000:03:00.0", kGpu))))),
      ""));
  const auto text = write_nccl_xml(m);
  ASSERT_TRUE(text);
  const auto again = read_nccl_xml(*text, "t.xml");
  ASSERT_TRUE(again);
  ASSERT_EQ(again->pci.size(), 3U) << *text;
  EXPECT_TRUE(again->pci[0].host_bridge);
  EXPECT_EQ(to_string(again->pci[1].bus), "0000:01:00.0");
  EXPECT_EQ(again->pci[2].parent, 1);
}

TEST(HwlocXml, TakesNoDisplayForAGpu) {
  const Machine m = read(two_packages(
      host_bridge("0000:[00-09]",
                  device("0000:01:00.0", "0300 [1a03:2000]") + device("0000:02:00.0", "0300 [1d0f:1111]") +
                      device("0000:03:00.0", "0300 [8086:46a6]") + device("0000:04:00.0", "0380 [8086:0bd5]") +
                      device("0000:05:00.0", "0380 [1002:740f]") + device("0000:06:00.0", "0403 [10de:10f8]") +
                      device("0000:07:00.0", "0680 [10de:22a3]")),
      ""));
  ASSERT_EQ(m.gpus.size(), 2U);
  EXPECT_EQ(m.gpus[0].vendor, Vendor::kIntel);
  EXPECT_EQ(m.gpus[1].vendor, Vendor::kAmd);
}

std::string os(const std::string& name, int type, const std::string& infos = "", const std::string& id = "0") {
  return "<object type=\"OSDev\" gp_index=\"" + id + "\" name=\"" + name + "\" osdev_type=\"" + std::to_string(type) +
         "\">" + infos + "</object>";
}

std::string info_line(const std::string& name, const std::string& value) {
  return "<info name=\"" + name + "\" value=\"" + value + "\"/>";
}

TEST(HwlocXml, NumbersGpusAsTheirToolsDo) {
  const std::string nvml = info_line("GPUModel", "H100") + info_line("NVIDIAUUID", "GPU-7");
  const Machine m = read(
      two_packages(host_bridge("0000:[00-09]", device("0000:03:00.0", kGpu, os("cuda0", 5) + os("nvml3", 1, nvml)) +
                                                   device("0000:04:00.0", kGpu, os("opencl0d0", 5))),
                   ""));
  ASSERT_EQ(m.gpus.size(), 2U);
  EXPECT_EQ(m.gpus[0].name, "GPU0");
  EXPECT_EQ(m.gpus[1].name, "GPU3");
  EXPECT_EQ(m.gpus[1].model, "H100");
  EXPECT_EQ(m.gpus[1].uuid, "GPU-7");
}

TEST(HwlocXml, ReadsPortsOfHcas) {
  const std::string hca =
      os("ibs1", 2, info_line("Port", "1")) +
      os("mlx5_0", 3,
         info_line("NodeGUID", "0002:c903:0000:1001") + info_line("SysImageGUID", "0002:c903:0000:1000") +
             info_line("Port1State", "4") + info_line("Port2State", "1"));
  const Machine m = read(two_packages(
      host_bridge("0000:[00-09]", device("0000:03:00.0", kHca, hca) +
                                      device("0000:04:00.0", "0200 [15b3:1021]", os("mlx5_1", 3) + os("ens3", 2)) +
                                      device("0000:05:00.0", "0200 [1d0f:efa1]", os("rdmap5s0", 3)) +
                                      device("0000:06:00.0", "0200 [8086:1521]", os("eno1", 2)) +
                                      device("0000:07:00.0", "0280 [8086:24fb]", os("x0", 2))),
      ""));
  ASSERT_EQ(m.nets.size(), 6U);
  EXPECT_EQ(m.nets[0].name, "mlx5_0");
  EXPECT_EQ(m.nets[0].state, LinkState::kActive);
  EXPECT_EQ(m.nets[0].interface, "ibs1");
  EXPECT_EQ(m.nets[0].layer, LinkLayer::kInfiniband);
  EXPECT_EQ(m.nets[0].guid, 0x2c90300001000U);
  EXPECT_EQ(m.nets[1].port, 2);
  EXPECT_EQ(m.nets[1].state, LinkState::kDown);
  EXPECT_EQ(m.nets[1].guid, m.nets[0].guid);
  EXPECT_EQ(m.nets[2].layer, LinkLayer::kEthernet);
  EXPECT_EQ(m.nets[2].state, LinkState::kUnknown);
  EXPECT_EQ(m.nets[2].interface, "ens3");
  EXPECT_EQ(m.nets[3].kind, NetKind::kOtherRdma);
  EXPECT_EQ(m.nets[4].kind, NetKind::kPhysical);
  EXPECT_EQ(m.nets[5].kind, NetKind::kWireless);
}

TEST(HwlocXml, KnowsAnOldHcaWithTwoPortsByItsInterfaces) {
  const Machine m =
      read(two_packages(host_bridge("0000:[00-09]", device("0000:03:00.0", "0c06 [15b3:634a]",
                                                           os("ib0", 2) + os("ib1", 2) + os("mlx4_0", 2))),
                        ""));
  ASSERT_EQ(m.nets.size(), 2U);
  EXPECT_EQ(m.nets[0].name, "mlx4_0");
  EXPECT_EQ(m.nets[1].port, 2);
  EXPECT_EQ(m.nets[1].interface, "ib1");
  EXPECT_EQ(m.nets[1].layer, LinkLayer::kInfiniband);
}

TEST(HwlocXml, ReadsVersionOneWithPackagesInsideNumaNodes) {
  const Machine m = read(R"(<topology><object type="Machine" cpuset="0xff" nodeset="0x3">
    <object type="NUMANode" os_index="0" cpuset="0x0f" nodeset="0x1"><object type="Socket" os_index="4294967295"/></object>
    <object type="NUMANode" os_index="1" cpuset="0xf0" nodeset="0x2"><object type="Package" os_index="9"/>
    <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-09]"><object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0380 [1002:67a0] [1002:0735] 00"/></object>
    </object></object></topology>)");
  ASSERT_EQ(m.numas.size(), 2U);
  EXPECT_EQ(m.numas[0].package, kNone);
  EXPECT_EQ(m.numas[1].package, 9);
  ASSERT_EQ(m.gpus.size(), 1U);
  EXPECT_EQ(m.gpus[0].numa, 1);
}

TEST(HwlocXml, ReadsVersionThreesBits) {
  std::string text = two_packages(
      host_bridge("0000:[00-09]",
                  device("0000:03:00.0", kHca, os("ib0", 16) + os("qib0", 48, info_line("Port1State", "4")))),
      "");
  text.replace(text.find("2.0"), 3, "3.0");
  const Machine m = read(text);
  ASSERT_EQ(m.nets.size(), 1U);
  EXPECT_EQ(m.nets[0].name, "qib0");
  EXPECT_EQ(m.nets[0].interface, "ib0");
  EXPECT_EQ(m.nets[0].state, LinkState::kActive);
}

TEST(HwlocXml, ReadsLinksFromBandwidths) {
  const std::string matrix =
      "<distances2hetero nbobjs=\"4\" name=\"NVLinkBandwidth\"><indexes length=\"9\">PCIDev:10 PCIDev:11 </indexes>"
      "<indexes length=\"9\">PCIDev:12 Package:1 </indexes><u64values length=\"9\">0 50000 25000 0 </u64values>"
      "<u64values length=\"9\">50000 0 0 75000 0 0 0 0 0 0 0 0 </u64values></distances2hetero>";
  const Machine m = read(two_packages(
      host_bridge("0000:[00-09]", device("0000:03:00.0", kGpu, "", "10") + device("0000:04:00.0", kGpu, "", "11") +
                                      device("0000:05:00.0", "0000 [0000:0000]", "", "12")),
      "", "", matrix));
  ASSERT_EQ(m.links.size(), 4U);
  EXPECT_EQ(m.links[0].peer, 1);
  EXPECT_EQ(m.links[0].count, 2);
  EXPECT_EQ(m.links[0].gbit_per_s, 400);
  EXPECT_TRUE(m.links[1].to_switch);
  EXPECT_EQ(m.links[2].peer, 0);
  EXPECT_EQ(m.links[3].peer, kNone);
  EXPECT_FALSE(m.links[3].to_switch) << "a CPU";
  EXPECT_EQ(m.links[3].count, 3);
}

TEST(HwlocXml, IgnoresAMatrixThatDoesNotFit) {
  const std::string matrix =
      "<distances2hetero name=\"NVLinkBandwidth\"><indexes>PCIDev:10 PCIDev:11</indexes><u64values>1 2 "
      "3</u64values></distances2hetero>";
  EXPECT_TRUE(read(two_packages(host_bridge("0000:[00-09]", device("0000:03:00.0", kGpu, "", "10")), "", "", matrix))
                  .links.empty());
}

TEST(HwlocXml, SaysWhereAndWhatIsWrong) {
  EXPECT_THAT(error_of(two_packages(host_bridge("banana", ""), "")),
              HasSubstr("t.xml:1: <object type=\"Bridge\">: bridge_pci=\"banana\""));
  EXPECT_THAT(error_of(two_packages(device("x", kGpu), "")), HasSubstr("pci_busid=\"x\""));
  EXPECT_THAT(error_of("<system/>"), HasSubstr("begins with <topology>"));
  EXPECT_THAT(error_of("<topology><object type=\"NUMANode\" os_index=\"0\" cpuset=\"zz\"/></topology>"),
              HasSubstr("cpuset=\"zz\""));
  EXPECT_THAT(error_of("<topology><object type=\"NUMANode\" os_index=\"9999999999\"/></topology>"),
              HasSubstr("os_index"));
  EXPECT_THAT(error_of("<topology"), HasSubstr("not well-formed"));
}

TEST(HwlocXml, ReadsAllPublicFiles) {
  const auto files = files_in(shared_topologies("hwloc_xml"));
  if (files.empty()) GTEST_SKIP() << "the public topology files are not beside this checkout: " << SHARED_TOPOLOGIES;
  struct Expected {
    size_t gpus, rdma;
  };
  const std::map<std::string, Expected> expected = {{"aws_p3dn.xml", {8, 1}},
                                                    {"aws_p5.xml", {8, 32}},
                                                    {"aws_g6.xml", {8, 1}},
                                                    {"aws_c5n_nogpu.xml", {0, 1}},
                                                    {"p9_lassen.xml", {4, 4}},
                                                    {"pascal_2p100.xml", {2, 1}},
                                                    {"corona_8mi60.xml", {8, 1}},
                                                    {"arm_ulna_v1.xml", {2, 4}},
                                                    {"chimera_mixed_vendor_v1.xml", {2, 0}},
                                                    {"dgx2_nvml_only.xml", {16, 0}},
                                                    {"devel09_mlx4_2port.xml", {0, 2}},
                                                    {"pcilocality_qib.xml", {0, 1}}};
  for (const auto& path : files) {
    SCOPED_TRACE(path);
    const Machine m = read(file_text(path));
    const auto rdma = [](const NetPort& net) { return net.kind == NetKind::kRdma || net.kind == NetKind::kOtherRdma; };
    const auto known = expected.find(path.filename());
    if (known == expected.end()) continue;
    EXPECT_EQ(m.gpus.size(), known->second.gpus);
    EXPECT_EQ(static_cast<size_t>(std::count_if(m.nets.begin(), m.nets.end(), rdma)), known->second.rdma);
    for (size_t i = 0; i < m.gpus.size(); ++i) EXPECT_EQ(m.gpus[i].index, static_cast<int>(i));
  }
}

}  // namespace
}  // namespace twohop::topology
