// What follows for each rank from the machine that TWOHOP_TOPO_FILE or the kernel describes?
#include "collectives/exec/job_topology.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

namespace twohop {
namespace {

using Json = JobTopology::Json;

TEST(JobTopology, PutsRanksOfAMachineInOrderAndCountsMachines) {
  auto topology = JobTopology::learn(Options{}, "me");
  ASSERT_TRUE(topology) << topology.error().message;
  Json other = topology->message(), mine = topology->message();
  other["machine"] = "other";
  ASSERT_TRUE(topology->settle(2, {other, mine, mine}));
  EXPECT_TRUE(topology->report());
  for (const PlannedRail& rail : topology->rail_plan()) EXPECT_GE(rail.number, 0) << rail.device;
}

TEST(JobTopology, KnowsTheSlowestWireOfTheJobUnlessAMachineDoesNot) {
  auto topology = JobTopology::learn(Options{}, "me");
  ASSERT_TRUE(topology) << topology.error().message;
  Json mine = topology->message(), other = mine;
  other["machine"] = "other";
  mine["speeds"] = {400.0, 200.0}, mine["socket speed"] = 100.0, mine["rails"] = {"a", "b"};
  other["speeds"] = {400.0, 400.0}, other["socket speed"] = 25.0, other["rails"] = {"a", "b"};
  ASSERT_TRUE(topology->settle(0, {mine, other}));
  EXPECT_EQ(topology->rail_gbit_per_s(), 200);
  EXPECT_EQ(topology->socket_gbit_per_s(), 25);

  other["speeds"] = Json::array(), other["socket speed"] = 0.0, other["rails"] = Json::array();
  ASSERT_TRUE(topology->settle(0, {mine, other}));
  EXPECT_EQ(topology->rail_gbit_per_s(), 0);
  EXPECT_EQ(topology->socket_gbit_per_s(), 0);
}

TEST(JobTopology, SaysWhichVariableNamesAFileThatCannotBeRead) {
  Options options;
  options.topo_file = "/nonexistent/topo.xml";
  auto topology = JobTopology::learn(options, "me");
  ASSERT_FALSE(topology);
  EXPECT_NE(topology.error().message.find("TWOHOP_TOPO_FILE"), std::string::npos);
}

TEST(JobTopology, RefusesAMessageThatLacksAField) {
  auto topology = JobTopology::learn(Options{}, "me");
  ASSERT_TRUE(topology);
  EXPECT_FALSE(topology->settle(0, {Json::object()}));
  EXPECT_FALSE(topology->settle(0, {Json(3)}));
  Json wrong = topology->message();
  wrong["rails"] = "many";
  EXPECT_FALSE(topology->settle(0, {wrong}));
}

TEST(JobTopology, WritesTheMachineOncePerHost) {
  const std::string file = "/tmp/twohop_dump_" + std::to_string(getpid()) + ".json";
  Options options;
  options.topo_dump_file = file;
  auto topology = JobTopology::learn(options, "me");
  ASSERT_TRUE(topology);
  ASSERT_TRUE(topology->settle(1, {topology->message(), topology->message()}));
  ASSERT_TRUE(topology->report());
  EXPECT_NE(access(file.c_str(), F_OK), 0) << "local rank 1 wrote it";
  ASSERT_TRUE(topology->settle(0, {topology->message()}));
  ASSERT_TRUE(topology->report());
  EXPECT_EQ(access(file.c_str(), R_OK), 0);
  std::remove(file.c_str());
}

}  // namespace
}  // namespace twohop
