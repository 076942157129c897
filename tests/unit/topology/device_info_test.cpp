// Texts of ibv_devinfo, ibstat, ibdev2netdev and show_gids.
#include "topology/device_info.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/load.hpp"
#include "unit/topology/files.hpp"

namespace twohop::topology {
namespace {

using testing::HasSubstr;

std::vector<PortInfo> read(const std::string& text) {
  auto ports = read_device_info(text, "t.txt");
  EXPECT_TRUE(ports) << ports.error().message;
  return ports ? *ports : std::vector<PortInfo>{};
}

TEST(DeviceInfo, ReadsIbvDevinfo) {
  const auto ports = read(
      "hca_id:\tmlx5_0\n\ttransport:\t\tInfiniBand "
      "(0)\n\tnode_guid:\t0002:c903:0000:1001\n\tsys_image_guid:\t0002:c903:0000:1000\n"
      "\tsome field nobody knows:  EXPLODE\n\t\tport:\t1\n\t\t\tstate:\t\tPORT_ACTIVE "
      "(4)\n\t\t\tlink_layer:\tInfiniBand\n"
      "\t\tport:\t2\n\t\t\tstate:\t\tPORT_DOWN (1)\n\t\t\tlink_layer:\tEthernet\n"
      "hca_id:\tmlx5_1\n\tsys_image_guid:\t0000:0000:0000:0000\n\tnode_guid:\t0000:0000:0000:0009\n\t\tport:\t1\n");
  ASSERT_EQ(ports.size(), 3U);
  EXPECT_EQ(ports[0].device, "mlx5_0");
  EXPECT_EQ(ports[0].state, LinkState::kActive);
  EXPECT_EQ(ports[0].layer, LinkLayer::kInfiniband);
  EXPECT_EQ(ports[0].guid, 0x2c90300001000U);
  EXPECT_EQ(ports[1].port, 2);
  EXPECT_EQ(ports[1].state, LinkState::kDown);
  EXPECT_EQ(ports[1].layer, LinkLayer::kEthernet);
  EXPECT_EQ(ports[2].state, LinkState::kUnknown);
  EXPECT_EQ(ports[2].guid, 9U);
}

TEST(DeviceInfo, ReadsIbstatAlsoCommentedOut) {
  for (const char* mark : {"", "# "}) {
    std::string text;
    for (const char* line : {"CA 'mlx5_3'", "  Node GUID: 0x0000000000000004", "  Port 1:", "    State: Active",
                             "    Physical state: LinkUp", "    Rate: 400", "    Link layer: InfiniBand",
                             "CA 'rocep1s0'", "  Port 1:", "    State: Down", "    Rate: 100"})
      text += std::string(mark) + line + "\n";
    const auto ports = read(text);
    ASSERT_EQ(ports.size(), 2U) << text;
    EXPECT_EQ(ports[0].gbit_per_s, 400);
    EXPECT_EQ(ports[0].state, LinkState::kActive);
    EXPECT_EQ(ports[0].guid, 4U);
    EXPECT_EQ(ports[1].state, LinkState::kDown);
  }
}

TEST(DeviceInfo, ReadsIbdev2netdev) {
  const auto ports = read("mlx5_4 port 1 ==> eth4 (Down)\nmlx5_bond_0 port 1 ==> bond0 (Up)\nbroken ==> x\n");
  ASSERT_EQ(ports.size(), 2U);
  EXPECT_EQ(ports[0].interface, "eth4");
  EXPECT_EQ(ports[0].state, LinkState::kDown);
  EXPECT_EQ(ports[1].state, LinkState::kActive);
}

TEST(DeviceInfo, ReadsShowGids) {
  const auto ports = read(
      "DEV\tPORT\tINDEX\tGID\t\tIPv4\tVER\tDEV\n---\t----\t-----\t---\n"
      "mlx5_0\t1\t4\tfe80:0000:0000:0000:0200:5eff:fe00:5301\t\t\tv1\tnet1\n"
      "mlx5_0\t1\t7\t0000:0000:0000:0000:0000:ffff:c000:020c\t192.0.2.12\t\tv2\tnet1\nn_gids_found=2\n");
  ASSERT_EQ(ports.size(), 1U);
  ASSERT_EQ(ports[0].gids.size(), 2U);
  EXPECT_EQ(ports[0].interface, "net1");
  EXPECT_FALSE(ports[0].gids[0].roce_v2);
  EXPECT_EQ(ports[0].gids[0].ipv4, "");
  EXPECT_EQ(ports[0].gids[1].index, 7);
  EXPECT_EQ(ports[0].gids[1].ipv4, "192.0.2.12");
  EXPECT_TRUE(ports[0].gids[1].roce_v2);
}

TEST(DeviceInfo, PutsTextsOfSeveralToolsTogether) {
  const auto ports = read("mlx5_0 port 1 ==> eth4 (Up)\nCA 'mlx5_0'\nPort 1:\nState: Active\nRate: 200\n");
  ASSERT_EQ(ports.size(), 1U);
  EXPECT_EQ(ports[0].interface, "eth4");
  EXPECT_EQ(ports[0].gbit_per_s, 200);
}

TEST(DeviceInfo, FillsInAMachine) {
  auto machine = load_machine(fixture("dual_port.xml"));
  ASSERT_TRUE(machine);
  add_device_info(*machine,
                  read("CA 'mlx5_0'\nPort 1:\nState: Active\nRate: 200\nLink layer: Ethernet\n"
                       "CA 'mlx5_1'\nPort 2:\nState: Down\nRate: 100\nCA 'mlx5_9'\nPort 1:\nState: Active\n"));
  ASSERT_EQ(machine->nets.size(), 3U);
  EXPECT_EQ(machine->nets[0].state, LinkState::kActive);
  EXPECT_EQ(machine->nets[1].state, LinkState::kDown);
  EXPECT_EQ(machine->nets[1].gbit_per_s, 100);
  EXPECT_EQ(machine->nets[2].pci, kNone);
  ASSERT_EQ(machine->notes.size(), 1U);
  EXPECT_THAT(machine->notes[0].text, HasSubstr("the rate is 200 Gbit/s in one source and 100 Gbit/s in another"));
}

TEST(DeviceInfo, NeedsAPort) {
  const auto ports = read_device_info("State: Active\nRate: 100\n", "t.txt");
  ASSERT_FALSE(ports);
  EXPECT_THAT(ports.error().message, HasSubstr("accepted are the texts of ibv_devinfo"));
}

TEST(DeviceInfo, ReadsAllPublicFiles) {
  const auto files = files_in(shared_topologies("ibinfo"));
  if (files.empty()) GTEST_SKIP() << "the public files are not beside this checkout: " << SHARED_TOPOLOGIES;
  for (const auto& path : files) {
    SCOPED_TRACE(path);
    const auto machine = load_machine(path);
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_EQ(machine->kind, SourceKind::kDeviceInfo);
    EXPECT_FALSE(machine->nets.empty());
  }
  const auto down = load_machine(shared_topologies("ibinfo") / "ibstat_e810_down.txt");
  EXPECT_EQ(down->nets.at(0).state, LinkState::kDown);
  EXPECT_EQ(down->nets.at(0).gbit_per_s, 100);
  const auto nine = load_machine(shared_topologies("ibinfo") / "ibstat_ndr_plus_mgmt_bond.txt");
  EXPECT_EQ(nine->nets.size(), 9U);
  EXPECT_TRUE(nine->nets.back().bond);
}

}  // namespace
}  // namespace twohop::topology
