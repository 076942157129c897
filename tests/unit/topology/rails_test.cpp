#include "topology/rails.hpp"

#include <gtest/gtest.h>

#include "unit/topology/machines.hpp"

namespace twohop::topology {
namespace {

/// `gpus` GPUs and `nets` ports beneath one switch of a new NUMA node.
void add_switch(MachineBuilder& b, int gpus, int nets) {
  const int root = b.root(b.numa());
  for (int i = 0; i < gpus; ++i) b.gpu(b.device(root));
  for (int i = 0; i < nets; ++i) b.net(b.device(root));
}

TEST(Rails, AreSharedEvenlyInATie) {
  MachineBuilder b;
  add_switch(b, 2, 2);
  add_switch(b, 4, 2);
  EXPECT_EQ(assignment_text(b.m, choose(b.m)),
            "GPU0: mlx5_0; GPU1: mlx5_1; GPU2: mlx5_2; GPU3: mlx5_2; GPU4: mlx5_3; GPU5: mlx5_3");
}

TEST(Rails, AllGoToTheirGpusWhereThereAreMoreThanGpus) {
  MachineBuilder b;
  add_switch(b, 2, 4);
  EXPECT_EQ(assignment_text(b.m, choose(b.m)), "GPU0: mlx5_0 mlx5_1; GPU1: mlx5_2 mlx5_3");
}

TEST(Rails, LeaveOutWhatNoGpuHasNearest) {
  MachineBuilder b;
  add_switch(b, 1, 1);
  add_switch(b, 0, 1);
  const RailChoice choice = choose(b.m);
  EXPECT_EQ(choice.rails.size(), 1u);
  EXPECT_NE(rejected_text(b.m, choice).find("mlx5_1: SYS to every GPU"), std::string::npos);
}

TEST(Rails, TakeFarPortsWithAWarningWhereNothingIsNear) {
  MachineBuilder b;
  add_switch(b, 1, 0);
  add_switch(b, 1, 1);
  b.nvlink(0, 1, 2);
  const RailChoice choice = choose(b.m);
  EXPECT_EQ(assignment_text(b.m, choice), "GPU0: mlx5_0; GPU1: mlx5_0");
  EXPECT_TRUE(says(choice.warnings, "no port is near GPU0: mlx5_0 is used"));
  EXPECT_TRUE(says(choice.notes, "GPU0 could send over its GPU links and GPU1's rail"));
}

TEST(Rails, SaySoWhenEveryWayIsFar) {
  MachineBuilder b;
  add_switch(b, 1, 0);
  add_switch(b, 0, 3);
  const RailChoice choice = choose(b.m);
  EXPECT_EQ(assignment_text(b.m, choice), "GPU0: mlx5_0 mlx5_1 mlx5_2");
  EXPECT_TRUE(says(choice.warnings, "cannot be decided"));
}

TEST(Rails, AreOfOneSpeedHoweverNearTheSlowOneIs) {
  MachineBuilder b;
  const int root = b.root(b.numa());
  b.gpu(b.device(root));
  b.net(b.device(root), 100);
  b.net(b.device(kNone, 0), 400);
  const RailChoice choice = choose(b.m);
  EXPECT_EQ(assignment_text(b.m, choice), "GPU0: mlx5_1");
  EXPECT_NE(rejected_text(b.m, choice).find("mlx5_0: 100G: slower"), std::string::npos);
}

TEST(Rails, AreTheEightThatWereBoughtAndNotTheOddFasterPort) {
  MachineBuilder b;
  add_switch(b, 4, 4);
  b.net(b.device(kNone, 0), 400);
  EXPECT_EQ(choose(b.m).rails.size(), 4u);
}

TEST(Rails, NeverMixInfinibandAndRoce) {
  MachineBuilder b;
  add_switch(b, 2, 3);
  b.m.nets[0].layer = LinkLayer::kEthernet;
  b.m.nets[1].layer = b.m.nets[2].layer = LinkLayer::kInfiniband;
  const RailChoice choice = choose(b.m);
  EXPECT_EQ(assignment_text(b.m, choice), "GPU0: mlx5_1; GPU1: mlx5_2");
  EXPECT_NE(rejected_text(b.m, choice).find("mlx5_0: RoCE"), std::string::npos);
}

TEST(Rails, LeaveOutPortsThatAreDownVirtualOrWithoutRdma) {
  MachineBuilder b;
  add_switch(b, 1, 5);
  b.m.nets[0].state = LinkState::kDown;
  b.m.nets[1].kind = NetKind::kVirtual;
  b.m.nets[2].kind = NetKind::kPhysical;
  b.m.nets[3].kind = NetKind::kWireless;
  const RailChoice choice = choose(b.m);
  EXPECT_EQ(assignment_text(b.m, choice), "GPU0: mlx5_4");
  EXPECT_EQ(choice.rejected.size(), 4u);
  EXPECT_EQ(choice.sockets, std::vector<int>{2});
}

TEST(Rails, AreBondsInsteadOfTheirParts) {
  MachineBuilder b;
  add_switch(b, 1, 3);
  b.m.nets[0].guid = b.m.nets[1].guid = b.m.nets[2].guid = 7;
  b.m.nets[1].name = "mlx5_bond_0";
  b.m.nets[1].bond = true;
  const RailChoice choice = choose(b.m);
  EXPECT_EQ(assignment_text(b.m, choice), "GPU0: mlx5_bond_0");
  EXPECT_EQ(choice.rejected.size(), 2u);
}

TEST(Rails, AreNoSecondFunctionsOfOnePort) {
  MachineBuilder b;
  add_switch(b, 2, 2);
  PciNode& physical = b.m.pci[b.m.nets[0].pci];
  PciNode& virtual_one = b.m.pci[b.m.nets[1].pci];
  physical.vendor = virtual_one.vendor = 0x15b3;
  physical.device = 0x101b;
  virtual_one.device = 0x101e;
  virtual_one.bus = physical.bus;
  virtual_one.bus.function = 2;
  EXPECT_EQ(assignment_text(b.m, choose(b.m)), "GPU0: mlx5_0; GPU1: mlx5_0");
}

TEST(Rails, AreTheDevicesAndNotNcclsMergedViewOfThem) {
  MachineBuilder b;
  add_switch(b, 1, 2);
  b.net(b.m.nets[0].pci, 400).name = "mlx5_0+mlx5_1";
  EXPECT_EQ(assignment_text(b.m, choose(b.m)), "GPU0: mlx5_0 mlx5_1");
}

TEST(Rails, AreBothPortsOfADualPortCard) {
  MachineBuilder b;
  const int root = b.root(b.numa());
  for (int i = 0; i < 4; ++i) b.gpu(b.device(root));
  const int card = b.device(root);
  b.net(card).guid = 5;
  b.net(card).guid = 5;
  b.m.nets[1].port = 2;
  EXPECT_EQ(assignment_text(b.m, choose(b.m)), "GPU0: mlx5_0; GPU1: mlx5_0; GPU2: mlx5_1; GPU3: mlx5_1");
}

TEST(Rails, OfOtherProvidersAreNamedAndNotUsable) {
  MachineBuilder b;
  add_switch(b, 1, 1);
  b.m.nets[0].kind = NetKind::kOtherRdma;
  RailChoice choice = choose(b.m);
  EXPECT_FALSE(choice.verbs);
  EXPECT_EQ(assignment_text(b.m, choice), "GPU0: mlx5_0");
  EXPECT_TRUE(says(choice.warnings, "0 rails are usable over verbs"));
  b.net(kNone);
  choice = choose(b.m);
  EXPECT_TRUE(choice.verbs);
  EXPECT_EQ(assignment_text(b.m, choice), "GPU0: mlx5_1");
}

TEST(Rails, WarnOfUnevenLoadsAndIdlePorts) {
  MachineBuilder b;
  add_switch(b, 2, 2);
  add_switch(b, 4, 1);
  b.net(b.device(kNone, 1));  // PHB to GPUs that share a nearer one
  const RailChoice choice = choose(b.m);
  EXPECT_TRUE(says(choice.warnings, "1, 1, 4 GPUs"));
  EXPECT_TRUE(says(choice.warnings, "mlx5_3 is idle"));
}

TEST(Rails, ReportAGpuThatLostItsNvlinks) {
  MachineBuilder b;
  add_switch(b, 4, 0);
  for (int g : {0, 1, 3}) b.nvswitch(g, 18);
  EXPECT_EQ(find_paths(b.m).gpu_gpu[0][2].kind, PathClass::kPix);
  b.nvswitch(2, 9);
  EXPECT_TRUE(says(choose(b.m).warnings, "GPU2 has 9 GPU links, its siblings 18"));
}

TEST(Rails, RefuseToMixVendorsButNotIntegratedGraphics) {
  MachineBuilder b;
  add_switch(b, 2, 1);
  b.m.gpus[1].vendor = Vendor::kAmd;
  RailChoice choice = choose(b.m);
  EXPECT_TRUE(says(choice.warnings, "GPUs of nvidia and amd"));
  EXPECT_EQ(assignment_text(b.m, choice), "GPU0:; GPU1:");
  b.m.gpus[1].integrated = true;
  choice = choose(b.m);
  EXPECT_FALSE(says(choice.warnings, "GPUs of"));
}

TEST(Rails, WithoutGpusAreAllUsablePorts) {
  MachineBuilder b;
  add_switch(b, 0, 2);
  const RailChoice choice = choose(b.m);
  EXPECT_EQ(choice.rails.size(), 2u);
  EXPECT_TRUE(says(choice.warnings, "no GPU"));
}

TEST(Rails, OfAnEmptyMachineAreNone) {
  const RailChoice choice = choose(Machine{});
  EXPECT_TRUE(choice.rails.empty());
  EXPECT_TRUE(says(choice.warnings, "no RDMA NIC"));
}

TEST(Rails, AreNumberedAlongTheGpusWhateverTheirNames) {
  MachineBuilder b;
  add_switch(b, 1, 1);
  add_switch(b, 1, 1);
  std::swap(b.m.nets[0].name, b.m.nets[1].name);
  EXPECT_EQ(assignment_text(b.m, choose(b.m)), "GPU0: mlx5_1; GPU1: mlx5_0");
  EXPECT_EQ(choose(b.m).assignment[0].rails, std::vector<int>{0});
}

TEST(PortNames, SortAsPeopleCount) {
  EXPECT_TRUE(natural_less("mlx5_2", "mlx5_10"));
  EXPECT_FALSE(natural_less("mlx5_10", "mlx5_2"));
  EXPECT_TRUE(natural_less("mlx5_2", "mlx5_bond_0"));
  EXPECT_TRUE(natural_less("a", "a1"));
  EXPECT_FALSE(natural_less("a", "a"));
}

}  // namespace
}  // namespace twohop::topology
