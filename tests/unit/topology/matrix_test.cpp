// The text of nvidia-smi topo -m: as the tool prints it, as people paste it, and as it must not be read.
#include "topology/matrix.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "topology/cpu_set.hpp"
#include "topology/finish.hpp"
#include "unit/topology/files.hpp"

namespace twohop::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
constexpr PathClass kLoc = PathClass::kLoc, kNvl = PathClass::kNvl, kPix = PathClass::kPix, kPxb = PathClass::kPxb,
                    kNode = PathClass::kNode, kSys = PathClass::kSys;

Machine read(const std::string& text) {
  auto machine = read_matrix(text, "t.txt");
  EXPECT_TRUE(machine) << machine.error().message;
  if (!machine) return {};
  const auto ok = check_machine(*machine);
  EXPECT_TRUE(ok) << ok.error().message;
  return *machine;
}

std::string error_of(const std::string& text) {
  const auto machine = read_matrix(text, "t.txt");
  return machine ? "no error" : machine.error().message;
}

constexpr const char* kTable =
    "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV4\tPIX\tSYS\t0-3,8\t0\t\tN/A\n"
    "GPU1\tNV4\t X \tSYS\tNODE\t4-7\t1\t\tN/A\n"
    "NIC0\tPIX\tSYS\t X \tSYS\n"
    "NIC1\tSYS\tNODE\tSYS\t X \n\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing\n\nNIC Legend:\n\n  NIC0: "
    "mlx5_3\n  NIC1: mlx5_bond_0\n";

TEST(Matrix, ReadsWhatTheToolPrints) {
  const Machine m = read(kTable);
  ASSERT_EQ(m.gpus.size(), 2U);
  ASSERT_EQ(m.nets.size(), 2U);
  EXPECT_EQ(m.kind, SourceKind::kMatrix);
  EXPECT_EQ(m.nets[0].name, "mlx5_3");
  EXPECT_TRUE(m.nets[1].bond);
  EXPECT_THAT(m.given->gpu_gpu, ElementsAre(ElementsAre(kLoc, kNvl), ElementsAre(kNvl, kLoc)));
  EXPECT_THAT(m.given->gpu_net, ElementsAre(ElementsAre(kPix, kSys), ElementsAre(kSys, kNode)));
  EXPECT_THAT(m.given->net_net, ElementsAre(ElementsAre(kLoc, kSys), ElementsAre(kSys, kLoc)));
  ASSERT_EQ(m.numas.size(), 2U);
  EXPECT_EQ(m.numas[1].os_index, 1);
  EXPECT_EQ(to_cpu_list(m.numas[0].cpus), "0-3,8");
  ASSERT_EQ(m.links.size(), 2U);
  EXPECT_EQ(m.links[0].count, 4);
  EXPECT_EQ(m.links[0].peer, 1);
  EXPECT_TRUE(m.notes.empty());
}

TEST(Matrix, DoesNotMindEscapesCarriageReturnsAndProse) {
  std::string text = "$ nvidia-smi topo -m\r\n\x1b[4m";
  for (const char* c = kTable; *c != '\0'; ++c) text += *c == '\n' ? "\x1b[0m\r\n" : std::string(1, *c);
  Machine m = read(text), plain = read(kTable);
  EXPECT_EQ(m, plain);
}

TEST(Matrix, ReadsColumnsOfSpacesWithBlankValues) {
  const Machine m = read(
      "        GPU0    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
      "GPU0     X      PXB                     3               N/A\n"
      "NIC0    PXB      X\n");
  ASSERT_EQ(m.numas.size(), 1U);
  EXPECT_EQ(m.numas[0].os_index, 3);
  EXPECT_THAT(m.numas[0].cpus, IsEmpty());
}

TEST(Matrix, LeavesABlankNodeUnknown) {
  const Machine m = read("\tGPU0\tmlx5_0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t\tN/A\nmlx5_0\tSYS\t X \n");
  EXPECT_EQ(m.gpus[0].numa, kNone);
  EXPECT_EQ(m.nets[0].name, "mlx5_0");
  EXPECT_THAT(m.numas, IsEmpty());
}

TEST(Matrix, KeepsTheCpusButNotAListOfNodes) {
  const Machine m =
      read("\tGPU0\tmlx5_0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-3\t0,8,252-255\nmlx5_0\tSYS\t X \n");
  ASSERT_EQ(m.numas.size(), 1U);
  EXPECT_EQ(m.numas[0].os_index, kNone);
  EXPECT_EQ(to_cpu_list(m.numas[0].cpus), "0-3");
  ASSERT_EQ(m.notes.size(), 1U);
  EXPECT_THAT(m.notes[0].text, HasSubstr("0,8,252-255"));
}

TEST(Matrix, SplitsGluedNamesAndCells) {
  const Machine m = read(
      "\tGPU0\tGPU1\tNIC8NIC9\tCPU Affinity\n"
      "GPU0\t X \tNV18\tNODEPXB\t0-3\n"
      "GPU1\tNV18 X \tSYSSYS\t0-3\n");
  ASSERT_EQ(m.nets.size(), 2U);
  EXPECT_THAT(m.given->gpu_net, ElementsAre(ElementsAre(kNode, kPxb), ElementsAre(kSys, kSys)));
}

TEST(Matrix, NeverShiftsColumns) {
  EXPECT_THAT(error_of("\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV1\nGPU1\tNV1\t X \tSYS\n"),
              HasSubstr("t.txt:2: row GPU0 has 2 cells for 3 columns"));
  EXPECT_THAT(error_of("\tGPU0\tGPU1\tNIC0\nGPU0\t X \t\tSYS\t0-3\nGPU1\tNV1\t X \tSYS\n"),
              HasSubstr("column NIC0: \"0-3\""));
  EXPECT_THAT(error_of("\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV1\tSYSSYS\t0-3\n"), HasSubstr("4 cells for 3"));
  EXPECT_THAT(error_of("\tGPU0\tGPU1\nGPU0\tNV1\t X \nGPU1\tNV1\t X \n"), HasSubstr("out of step"));
  EXPECT_THAT(error_of("\tGPU0\tGPU1\nGPU0\t X \tABC\nGPU1\tABC\t X \n"), HasSubstr("\"ABC\"; accepted are X, NV#"));
  EXPECT_THAT(error_of("\tGPU0\tGPU0\n"), HasSubstr("occurs twice"));
  EXPECT_THAT(error_of("\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU0\t X \tSYS\n"), HasSubstr("second row GPU0"));
  EXPECT_THAT(error_of("hello\n"), HasSubstr("no header"));
  EXPECT_THAT(error_of("\tGPU0\tGPU1\nGPU0\t X \tNV0\nGPU1\tNV0\t X \n"), HasSubstr("NV0"));
}

TEST(Matrix, TakesWhatACutTextSays) {
  const Machine m = read(
      "\tGPU0\tGPU1\tGPU2\tNIC0\n"
      "GPU0\t X \tNV18\tNV18\tPIX\n"
      "GPU1\tNV18\t X \tNV18\tPIX\n"
      "GPU2\tNV18\tNV1");
  ASSERT_EQ(m.gpus.size(), 3U);
  EXPECT_THAT(m.given->gpu_net, ElementsAre(ElementsAre(kPix), ElementsAre(kPix), IsEmpty()));
  EXPECT_THAT(m.given->gpu_gpu[2], ElementsAre(kNvl, kNvl, kLoc)) << "from the others' columns";
  ASSERT_EQ(m.notes.size(), 1U);
  EXPECT_THAT(m.notes[0].text, HasSubstr("no rows for NIC0, GPU2 (in part)"));
  ASSERT_EQ(m.links.size(), 3U);
  EXPECT_TRUE(m.links[2].to_switch);
  EXPECT_EQ(m.links[2].count, 18);
}

TEST(Matrix, TellsANvswitchFromDirectLinks) {
  const Machine pair = read("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n");
  EXPECT_FALSE(pair.links[0].to_switch);
  const Machine three =
      read("\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV12\tNV12\nGPU1\tNV12\t X \tNV12\nGPU2\tNV12\tNV12\t X \n");
  ASSERT_EQ(three.links.size(), 3U);
  EXPECT_TRUE(three.links[0].to_switch);
  EXPECT_EQ(three.links[0].count, 12);
}

TEST(Matrix, KeepsNamesApartThatTheLegendMixesUp) {
  const Machine m = read("GPU0\tNIC0\tNIC1\tNIC2\nNIC0: NIC1\nNIC1: mlx5_0\nNIC2: mlx5_0\n");
  ASSERT_EQ(m.nets.size(), 3U);
  EXPECT_EQ(m.nets[0].name, "NIC0") << "NIC1 may have to keep its own";
  EXPECT_EQ(m.nets[1].name, "mlx5_0");
  EXPECT_EQ(m.nets[2].name, "NIC2");
  ASSERT_GE(m.notes.size(), 2U);
  EXPECT_THAT(m.notes[0].text, HasSubstr("gives NIC0 the name NIC1, which another has"));
  // A column's name that would be another's by the legend.
  EXPECT_EQ(read("GPU0\tport\t1\nport: 1\n").nets.size(), 2U);
}

TEST(Matrix, ReportsPathsThatDisagree) {
  const Machine m = read("\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tNODE\t X \n");
  ASSERT_EQ(m.notes.size(), 1U);
  EXPECT_THAT(m.notes[0].text, HasSubstr("1 pairs"));
}

TEST(Matrix, RefusesHugeTables) {
  std::string header = "GPU0";
  for (int i = 0; i < 2000; ++i) header += " NIC" + std::to_string(i);
  EXPECT_THAT(error_of(header + "\n"), HasSubstr("columns; up to"));
  EXPECT_THAT(error_of(std::string(5U << 20, 'x')), HasSubstr("bytes"));
}

TEST(Matrix, ReadsAllPublicFiles) {
  const auto files = files_in(shared_topologies("matrices"));
  if (files.empty()) GTEST_SKIP() << "the public topology files are not beside this checkout: " << SHARED_TOPOLOGIES;
  struct Expected {
    size_t gpus, nets, links;
  };
  const std::map<std::string, Expected> expected = {
      {"rtx6000ada_4g4n.txt", {4, 4, 0}},          {"b300_cx8_bond.txt", {8, 8, 8}},
      {"dgxa100_12hca.txt", {8, 12, 8}},           {"v100_4hca_1numa.txt", {8, 4, 32}},
      {"one_gpu_5bond_container.txt", {1, 5, 0}},  {"traverse_cgroup.txt", {1, 4, 0}},
      {"nv4_3nic_cpuset.txt", {4, 3, 12}},         {"2g_1n_node.txt", {2, 1, 0}},
      {"horovod288_sparse_cpus.txt", {4, 1, 12}},  {"h200_4g_isolated_rails.txt", {4, 2, 4}},
      {"2g_dualport_one_numa.txt", {2, 2, 0}},     {"b200_lost_nvlink_cut.txt", {8, 12, 7}},
      {"dgxh100_glued_cells_cut.txt", {8, 12, 8}}, {"h100_pairs_tie_cut.txt", {8, 8, 8}},
      {"4090_nic_near_one_gpu.txt", {8, 2, 0}},    {"h100_4numa_uneven_cut.txt", {8, 9, 8}},
      {"a100_18hca_quads_cut.txt", {8, 18, 8}},    {"2g_8nic_blank_affinity.txt", {2, 8, 2}}};
  for (const auto& path : files) {
    SCOPED_TRACE(path);
    EXPECT_TRUE(looks_like_matrix(file_text(path)));
    const Machine m = read(file_text(path));
    const auto known = expected.find(path.filename());
    if (known == expected.end()) continue;
    EXPECT_EQ(m.gpus.size(), known->second.gpus);
    EXPECT_EQ(m.nets.size(), known->second.nets);
    EXPECT_EQ(m.links.size(), known->second.links);
  }
}

}  // namespace
}  // namespace twohop::topology
