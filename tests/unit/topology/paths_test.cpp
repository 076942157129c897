#include "topology/paths.hpp"

#include <gtest/gtest.h>

#include "unit/topology/machines.hpp"

namespace twohop::topology {
namespace {

std::string gpu_net(const Machine& m, int gpu = 0, int net = 0) {
  return name_of(find_paths(m).gpu_net[gpu][net].kind);
}

TEST(Paths, CountSwitchElementsOfAnNcclXml) {
  MachineBuilder b;
  const int outer = b.root(b.numa());
  b.gpu(b.device(b.bridge(outer)));
  b.net(b.device(b.bridge(outer)));
  const int single = b.root(0);
  b.gpu(b.device(single));
  b.net(b.device(single));
  EXPECT_EQ(gpu_net(b.m, 0, 0), "PXB");
  EXPECT_EQ(gpu_net(b.m, 1, 1), "PIX");
  EXPECT_EQ(gpu_net(b.m, 0, 1), "PHB");
}

TEST(Paths, TakeTheTwoLevelsOfASwitchInHwlocForOneElement) {
  MachineBuilder b(SourceKind::kHwlocXml);
  const int host = b.root(b.numa(), true);
  const int upstream = b.bridge(b.bridge(host));
  b.gpu(b.device(b.bridge(upstream)));
  b.net(b.device(b.bridge(upstream)));
  EXPECT_EQ(gpu_net(b.m), "PIX");
  const int second = b.bridge(b.bridge(upstream));  // a switch behind a downstream port
  b.net(b.device(b.bridge(second)));
  EXPECT_EQ(gpu_net(b.m, 0, 1), "PXB");
  b.net(b.device(b.bridge(host)));
  EXPECT_EQ(gpu_net(b.m, 0, 2), "PHB");
}

TEST(Paths, TellHostBridgesOfOneNumaNodeApart) {
  MachineBuilder b(SourceKind::kHwlocXml);
  const int numa = b.numa();
  b.gpu(b.device(b.bridge(b.root(numa, true))));
  b.net(b.device(b.bridge(b.root(numa, true))));
  b.net(b.device(b.bridge(b.root(b.numa(), true))));
  EXPECT_EQ(gpu_net(b.m, 0, 0), "NODE");
  EXPECT_EQ(gpu_net(b.m, 0, 1), "SYS");
}

TEST(Paths, TakeWhatAMatrixSaysAndKnowWhatItDoesNot) {
  MachineBuilder b(SourceKind::kMatrix);
  b.gpu(kNone);
  b.gpu(kNone);
  b.net(kNone);
  b.m.given =
      GivenPaths{.gpu_gpu = {{PathClass::kLoc, PathClass::kNode}}, .gpu_net = {{PathClass::kPxb}}, .net_net = {}};
  const Paths paths = find_paths(b.m);
  EXPECT_EQ(paths.gpu_net[0][0].kind, PathClass::kPxb);
  EXPECT_TRUE(paths.gpu_net[0][0].known);
  EXPECT_FALSE(paths.gpu_net[1][0].known);
}

TEST(Paths, SeeLinksNamedAtEitherEndAndOverSwitches) {
  MachineBuilder b;
  const int numa = b.numa();
  for (int i = 0; i < 4; ++i) b.gpu(b.device(kNone, numa));
  b.nvlink(0, 1, 4);
  b.nvswitch(2, 18);
  b.nvswitch(3, 9);
  const Paths paths = find_paths(b.m);
  EXPECT_EQ(paths.gpu_gpu[1][0].nvlinks, 4);
  EXPECT_EQ(paths.gpu_gpu[2][3].nvlinks, 9);
  EXPECT_EQ(paths.gpu_gpu[0][2].kind, PathClass::kPhb);
  EXPECT_EQ(paths.gpu_gpu[0][0].kind, PathClass::kLoc);
}

}  // namespace
}  // namespace twohop::topology
