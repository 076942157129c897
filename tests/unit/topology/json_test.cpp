// JSON: every machine comes back equal; whatever is wrong is named.
#include "topology/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/hwloc_xml.hpp"
#include "topology/matrix.hpp"
#include "topology/nccl_xml.hpp"
#include "unit/topology/files.hpp"

namespace twohop::topology {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& text) {
  const auto machine = read_json(text, "t.json");
  return machine ? "no error" : machine.error().message;
}

std::string machine_with(const std::string& members) {
  return R"({"format": "twohop-machine", "version": 1, )" + members + "}";
}

void expect_round_trip(const Machine& m) {
  const auto again = read_json(write_json(m), "t.json");
  ASSERT_TRUE(again) << again.error().message << write_json(m);
  EXPECT_EQ(*again, m);
}

TEST(Json, KeepsEveryMember) {
  Machine m;
  m.kind = SourceKind::kHwlocXml;
  m.source = "a \"b\" \\ c";
  m.numas.push_back({3, 1, {{0, 3}, {8, 8}}, "x86_64", "GenuineIntel", 6, 143});
  m.pci.push_back({{0xfffffff, 0xff, 0xff, 0}, kNone, 0, true, false, false, 0x060000, 1, 2, 3, 4, 2.5, 16});
  m.pci.push_back({{0, 1, 2, 3}, 0, 0, false, true, true, 0x060400, 0xffff, 0xffff, 0, 0, 0.1, 0});
  m.gpus.push_back({4, "GPU4", 1, 0, Vendor::kHygon, "GPU-0-1", "DCU", 7, 90, "gfx", 38911, 1, false, true});
  m.nets.push_back({"mlx5_0",
                    2,
                    9,
                    "ib0",
                    1,
                    0,
                    NetKind::kOtherRdma,
                    LinkLayer::kEthernet,
                    LinkState::kDown,
                    0.1,
                    UINT64_MAX,
                    false,
                    true,
                    131072,
                    1.5,
                    true,
                    {"eth0", "eth1"}});
  m.links.push_back({0, kNone, true, GpuLinkKind::kC2c, 7, 1e-9});
  m.given = GivenPaths{{{PathClass::kLoc}}, {{PathClass::kPxb}}, {{}}};
  m.notes.push_back({Note::Level::kWarning, "text\n\t"});
  expect_round_trip(m);
  expect_round_trip(Machine{});
}

TEST(Json, IsFoundInsideALargerDocument) {
  const auto machine = read_json(R"({"rails": [], "machine": )" + write_json(Machine{}) + "}", "t.json");
  ASSERT_TRUE(machine) << machine.error().message;
}

TEST(Json, SkipsUnknownAndTakesDefaultsForMissingMembers) {
  const auto machine = read_json(machine_with(R"("gpus": [{"name": "GPU0", "colour": [1, {"a": 2}]}])"), "t.json");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->gpus.at(0).pci, kNone);
}

TEST(Json, ReplacesWhatIsNoUtf8) {
  Machine m;
  m.source = "\xff\xfe";
  const auto again = read_json(write_json(m), "t.json");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->source, "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Json, SaysWhereAndWhatIsWrong) {
  EXPECT_EQ(error_of(machine_with(R"("gpus": [{"name": 5}])")), "t.json: gpus[0].name is 5; it must be a text");
  EXPECT_THAT(error_of(machine_with(R"("pci": [{"bus": "x"}])")),
              HasSubstr("pci[0].bus is \"x\"; it must be a bus id"));
  EXPECT_THAT(error_of(machine_with(R"("pci": [{"class": "0x1ffffffff"}])")), HasSubstr("pci[0].class"));
  EXPECT_THAT(error_of(machine_with(R"("pci": [{"parent": 0}])")),
              HasSubstr("pci[0]: its parent 0 does not come before it"));
  EXPECT_THAT(error_of(machine_with(R"("pci": [{"parent": 99999999999}])")), HasSubstr("a whole number of 32 bits"));
  EXPECT_THAT(error_of(machine_with(R"("pci": [{"gt_per_s": -1}])")), HasSubstr("must not be negative"));
  EXPECT_THAT(error_of(machine_with(R"("gpus": [{"name": "a", "pci": 0}])")), HasSubstr("no PCI node with index 0"));
  EXPECT_THAT(error_of(machine_with(R"("gpus": [{"name": "a"}, {"name": "a"}])")), HasSubstr("occurs twice"));
  EXPECT_THAT(error_of(machine_with(R"("nets": [{"name": "a", "kind": "magic"}])")),
              HasSubstr("must be rdma, other-rdma"));
  EXPECT_THAT(error_of(machine_with(R"("links": [{"gpu": 0}])")), HasSubstr("no GPU with index 0"));
  EXPECT_THAT(error_of(machine_with(R"("given": {"gpu_net": [["PIX"]]})")), HasSubstr("gpu_net must be 0 x 0"));
  EXPECT_THAT(error_of(machine_with(R"("numas": [{"cpus": "9-1"}])")), HasSubstr("a list of CPUs"));
  EXPECT_THAT(error_of("[]"), HasSubstr("no machine"));
  EXPECT_THAT(error_of("{\"format\": \"twohop-machine\", \"version\": 2}"), HasSubstr("must be 1"));
  EXPECT_THAT(error_of("{\"format\""), HasSubstr("not well-formed"));
  EXPECT_THAT(error_of(std::string(1'000'000, '[')), HasSubstr("nested more than"));
}

TEST(Json, KeepsAllFixturesAndPublicFiles) {
  std::vector<std::filesystem::path> files = files_in(TOPOLOGY_FIXTURES);
  for (const char* kind : {"nccl_xml", "hwloc_xml", "matrices"})
    for (const auto& path : files_in(shared_topologies(kind))) files.push_back(path);
  for (const auto& path : files) {
    SCOPED_TRACE(path);
    const std::string text = file_text(path);
    for (const auto reader : {+[](std::string_view t) { return read_nccl_xml(t, "f"); },
                              +[](std::string_view t) { return read_hwloc_xml(t, "f"); },
                              +[](std::string_view t) { return read_matrix(t, "f"); }})
      if (const auto machine = reader(text)) expect_round_trip(*machine);
  }
}

}  // namespace
}  // namespace twohop::topology
