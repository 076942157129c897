// Are the right answers given for real machines? Those of our own fixtures ship; the public files are read from the
// folder beside the project where it is there.
#include <gtest/gtest.h>

#include <filesystem>

#include "topology/load.hpp"
#include "unit/topology/machines.hpp"

namespace twohop::topology {
namespace {

struct Answer {
  const char* file;
  size_t gpus, rails;
  const char* assignment;  // "GPU0 PIX mlx5_0+mlx5_1; ...", GPUs without rails left out
};

const Answer kFixtures[] = {
    {"cloud_flat.xml", 4, 4, "GPU0 PHB mlx5_0; GPU1 PHB mlx5_1; GPU2 PHB mlx5_2; GPU3 PHB mlx5_3"},
    {"dgx_like.xml", 8, 8,
     "GPU0 PXB mlx5_0; GPU1 PXB mlx5_3; GPU2 PXB mlx5_4; GPU3 PXB mlx5_5; "
     "GPU4 PXB mlx5_6; GPU5 PXB mlx5_9; GPU6 PXB mlx5_10; GPU7 PXB mlx5_11"},
    {"dual_port.xml", 2, 2, "GPU0 PIX mlx5_0; GPU1 PIX mlx5_1"},
    {"far_nic.xml", 2, 1, "GPU0 SYS mlx5_0; GPU1 SYS mlx5_0"},
    {"no_nic.xml", 2, 0, ""},
    {"one_nic.xml", 2, 1, "GPU0 PIX mlx5_0; GPU1 PHB mlx5_0"},
    {"pcie_ties.xml", 4, 4, "GPU0 PIX mlx5_0; GPU1 PIX mlx5_1; GPU2 PIX mlx5_2; GPU3 PIX mlx5_3"},
    {"vendor_file.xml", 4, 2,
     "GPU0 PIX 0000:10:1b.0; GPU1 PIX 0000:10:1b.0; GPU2 PIX 0000:90:1b.0; "
     "GPU3 PIX 0000:90:1b.0"},
};

const Answer kPublic[] = {
    {"nccl_xml/a6000x2_numa_minus1.xml", 2, 0, ""},
    {"nccl_xml/aws_g5_12xl_busids.xml", 0, 0, ""},
    {"nccl_xml/aws_p4d.xml", 8, 4,
     "GPU0 PIX 0000:10:1b.0; GPU1 PIX 0000:10:1b.0; GPU2 PIX 0000:20:1b.0; "
     "GPU3 PIX 0000:20:1b.0; GPU4 PIX 0000:90:1b.0; GPU5 PIX 0000:90:1b.0; "
     "GPU6 PIX 0000:a0:1b.0; GPU7 PIX 0000:a0:1b.0"},
    {"nccl_xml/aws_p5_contrib_2026.xml", 8, 32,
     "GPU0 PIX rdmap79s0+rdmap80s0+rdmap81s0+rdmap82s0; "
     "GPU1 PIX rdmap96s0+rdmap97s0+rdmap98s0+rdmap99s0; "
     "GPU2 PIX rdmap113s0+rdmap114s0+rdmap115s0+rdmap116s0; "
     "GPU3 PIX rdmap130s0+rdmap131s0+rdmap132s0+rdmap133s0; "
     "GPU4 PIX rdmap147s0+rdmap148s0+rdmap149s0+rdmap150s0; "
     "GPU5 PIX rdmap164s0+rdmap165s0+rdmap166s0+rdmap167s0; "
     "GPU6 PIX rdmap181s0+rdmap182s0+rdmap183s0+rdmap184s0; "
     "GPU7 PIX rdmap198s0+rdmap199s0+rdmap200s0+rdmap201s0"},
    {"nccl_xml/azure_ncv4_pairs.xml", 4, 0, ""},
    {"nccl_xml/azure_ndv4.xml", 8, 8,
     "GPU0 PIX 0101:00:00.0; GPU1 PIX 0102:00:00.0; GPU2 PIX 0103:00:00.0; "
     "GPU3 PIX 0104:00:00.0; GPU4 PIX 0105:00:00.0; GPU5 PIX 0106:00:00.0; "
     "GPU6 PIX 0107:00:00.0; GPU7 PIX 0108:00:00.0"},
    {"nccl_xml/azure_ndv5_variant.xml", 8, 8,
     "GPU0 PIX 0101:00:00.0; GPU1 PIX 0102:00:00.0; GPU2 PIX 0103:00:00.0; "
     "GPU3 PIX 0104:00:00.0; GPU4 PIX 0105:00:00.0; GPU5 PIX 0106:00:00.0; "
     "GPU6 PIX 0107:00:00.0; GPU7 PIX 0108:00:00.0"},
    {"nccl_xml/gb10_wifi_c2c.xml", 1, 0, ""},
    {"nccl_xml/gvisor_b200_vm.xml", 8, 8,
     "GPU0 PHB mlx5_5; GPU1 PHB mlx5_6; GPU2 PHB mlx5_7; GPU3 PHB mlx5_8; GPU4 PHB mlx5_9; "
     "GPU5 PHB mlx5_10; GPU6 PHB mlx5_11; GPU7 PHB mlx5_12"},
    {"nccl_xml/h200_noib_ethdup.xml", 8, 0, ""},
    {"nccl_xml/hygon_8dcu_dualport.xml", 8, 4,
     "GPU0 PXB mlx5_0; GPU1 PXB mlx5_0; GPU2 PXB mlx5_1; GPU3 PXB mlx5_1; GPU4 PXB mlx5_4; "
     "GPU5 PXB mlx5_4; GPU6 PXB mlx5_5; GPU7 PXB mlx5_5"},
    {"nccl_xml/mlopart_two_gpu_one_pci.xml", 2, 0, ""},
    {"nccl_xml/oci_a100_flat.xml", 8, 8,
     "GPU0 PIX 0000:0c:00.0; GPU1 PIX 0000:16:00.0; GPU2 PIX 0000:48:00.0; "
     "GPU3 PIX 0000:4c:00.0; GPU4 PIX 0000:8a:00.0; GPU5 PIX 0000:94:00.0; "
     "GPU6 PIX 0000:c3:00.0; GPU7 PIX 0000:d1:00.0"},
    {"nccl_xml/oci_h100_mlx0.xml", 8, 16,
     "GPU0 PXB mlx5_0+mlx5_1; GPU1 PXB mlx5_3+mlx5_4; GPU2 PXB mlx5_5+mlx5_6; "
     "GPU3 PXB mlx5_7+mlx5_8; GPU4 PXB mlx5_9+mlx5_10; GPU5 PXB mlx5_12+mlx5_13; "
     "GPU6 PXB mlx5_14+mlx5_15; GPU7 PXB mlx5_16+mlx5_17"},
    {"nccl_xml/panlichen_8x3090_fdr.xml", 8, 1,
     "GPU0 SYS mlx5_0; GPU1 SYS mlx5_0; GPU2 SYS mlx5_0; GPU3 SYS mlx5_0; GPU4 PIX mlx5_0; "
     "GPU5 PIX mlx5_0; GPU6 PIX mlx5_0; GPU7 PIX mlx5_0"},
    {"nccl_xml/perlmutter_4a100_slingshot.xml", 4, 4, "GPU0 PHB cxi3; GPU1 PHB cxi2; GPU2 PHB cxi1; GPU3 PHB cxi0"},
    {"nccl_xml/rccl_3p_pcie.xml", 3, 1, "GPU0 PHB mlx5_0; GPU1 SYS mlx5_0; GPU2 SYS mlx5_0"},
    {"nccl_xml/rccl_4p4h.xml", 16, 16,
     "GPU0 PIX mlx5_12; GPU1 PIX mlx5_11; GPU2 PIX mlx5_13; GPU3 PIX mlx5_6; GPU4 PIX mlx5_9; "
     "GPU5 PIX mlx5_7; GPU6 PIX mlx5_8; GPU7 PIX mlx5_10; GPU8 PIX mlx5_14; GPU9 PIX mlx5_15; "
     "GPU10 PIX mlx5_16; GPU11 PIX mlx5_17; GPU12 PIX mlx5_18; GPU13 PIX mlx5_19; "
     "GPU14 PIX mlx5_20; GPU15 PIX mlx5_21"},
    {"nccl_xml/rccl_8p6l_3nic.xml", 8, 3,
     "GPU0 PHB mlx5_0; GPU1 PHB mlx5_0; GPU2 PHB mlx5_1; GPU3 PHB mlx5_1; GPU4 PHB mlx5_2; "
     "GPU5 PHB mlx5_2; GPU6 PHB mlx5_2; GPU7 PHB mlx5_2"},
    {"nccl_xml/rccl_8p_940vm.xml", 8, 8,
     "GPU0 PHB mlx5_0; GPU1 PHB mlx5_1; GPU2 PHB mlx5_2; GPU3 PHB mlx5_3; GPU4 PHB mlx5_4; "
     "GPU5 PHB mlx5_5; GPU6 PHB mlx5_6; GPU7 PHB mlx5_7"},
    {"nccl_xml/rccl_90a_bond.xml", 8, 0, ""},
    {"nccl_xml/rccl_rome_n2_mixed.xml", 8, 1,
     "GPU0 SYS mlx5_1; GPU1 SYS mlx5_1; GPU2 SYS mlx5_1; GPU3 PHB mlx5_1; GPU4 SYS mlx5_1; "
     "GPU5 SYS mlx5_1; GPU6 PHB mlx5_1; GPU7 SYS mlx5_1"},
    {"nccl_xml/rccl_rome_n4.xml", 8, 1,
     "GPU0 SYS mlx5_0; GPU1 SYS mlx5_0; GPU2 SYS mlx5_0; GPU3 SYS mlx5_0; GPU4 SYS mlx5_0; "
     "GPU5 SYS mlx5_0; GPU6 SYS mlx5_0; GPU7 SYS mlx5_0"},
    {"nccl_xml/rcclx_8p_950_bnxt.xml", 8, 8,
     "GPU0 PXB bnxt_re0; GPU1 PXB bnxt_re1; GPU2 PXB bnxt_re2; GPU3 PXB bnxt_re3; "
     "GPU4 PXB bnxt_re4; GPU5 PXB bnxt_re5; GPU6 PXB bnxt_re6; GPU7 PXB bnxt_re7"},
    {"nccl_xml/sugarlxn_4090_gaps.xml", 4, 0, ""},
    {"nccl_xml/yccl_a6000x4_noib.xml", 4, 0, ""},
    {"nccl_xml/yccl_h800.xml", 8, 8,
     "GPU0 PIX mlx5_0; GPU1 PIX mlx5_3; GPU2 PIX mlx5_4; GPU3 PIX mlx5_5; GPU4 PIX mlx5_6; "
     "GPU5 PIX mlx5_7; GPU6 PIX mlx5_8; GPU7 PIX mlx5_9"},
    {"hwloc_xml/arm_ulna_v1.xml", 2, 2, "GPU0 PHB mlx5_0; GPU1 PHB mlx5_3"},
    {"hwloc_xml/aws_c5n_nogpu.xml", 0, 1, ""},
    {"hwloc_xml/aws_g6.xml", 8, 1,
     "GPU0 NODE rdmap150s0; GPU1 NODE rdmap150s0; GPU2 NODE rdmap150s0; GPU3 NODE rdmap150s0; "
     "GPU4 SYS rdmap150s0; GPU5 SYS rdmap150s0; GPU6 SYS rdmap150s0; GPU7 SYS rdmap150s0"},
    {"hwloc_xml/aws_p3dn.xml", 8, 1,
     "GPU0 PHB rdmap0s21; GPU1 PHB rdmap0s21; GPU2 PHB rdmap0s21; GPU3 PHB rdmap0s21; "
     "GPU4 PHB rdmap0s21; GPU5 PHB rdmap0s21; GPU6 PHB rdmap0s21; GPU7 PHB rdmap0s21"},
    {"hwloc_xml/aws_p5.xml", 8, 32,
     "GPU0 PIX rdmap79s0+rdmap80s0+rdmap81s0+rdmap82s0; "
     "GPU1 PIX rdmap96s0+rdmap97s0+rdmap98s0+rdmap99s0; "
     "GPU2 PIX rdmap113s0+rdmap114s0+rdmap115s0+rdmap116s0; "
     "GPU3 PIX rdmap130s0+rdmap131s0+rdmap132s0+rdmap133s0; "
     "GPU4 PIX rdmap147s0+rdmap148s0+rdmap149s0+rdmap150s0; "
     "GPU5 PIX rdmap164s0+rdmap165s0+rdmap166s0+rdmap167s0; "
     "GPU6 PIX rdmap181s0+rdmap182s0+rdmap183s0+rdmap184s0; "
     "GPU7 PIX rdmap198s0+rdmap199s0+rdmap200s0+rdmap201s0"},
    {"hwloc_xml/chimera_mixed_vendor_v1.xml", 2, 0, ""},
    {"hwloc_xml/corona_8mi60.xml", 8, 1,
     "GPU0 SYS mlx5_0; GPU1 SYS mlx5_0; GPU2 SYS mlx5_0; GPU3 SYS mlx5_0; GPU4 NODE mlx5_0; "
     "GPU5 PHB mlx5_0; GPU6 NODE mlx5_0; GPU7 NODE mlx5_0"},
    {"hwloc_xml/devel09_mlx4_2port.xml", 0, 2, ""},
    {"hwloc_xml/dgx2_nvml_only.xml", 16, 0, ""},
    {"hwloc_xml/p9_lassen.xml", 4, 4, "GPU0 NODE mlx5_0; GPU1 NODE mlx5_1; GPU2 NODE mlx5_2; GPU3 NODE mlx5_3"},
    {"hwloc_xml/pascal_2p100.xml", 2, 1, "GPU0 PIX mlx5_0; GPU1 PIX mlx5_0"},
    {"hwloc_xml/pcilocality_qib.xml", 0, 1, ""},
    {"matrices/2g_1n_node.txt", 2, 1, "GPU0 NODE mlx5_0; GPU1 NODE mlx5_0"},
    {"matrices/2g_8nic_blank_affinity.txt", 2, 2, "GPU0 PXB NIC6; GPU1 PXB NIC7"},
    {"matrices/2g_dualport_one_numa.txt", 2, 2, "GPU0 NODE mlx5_0; GPU1 SYS mlx5_1"},
    {"matrices/4090_nic_near_one_gpu.txt", 8, 2,
     "GPU0 SYS NIC0; GPU1 SYS NIC0; GPU2 SYS NIC0; GPU3 SYS NIC0; GPU4 SYS NIC1; "
     "GPU5 SYS NIC1; GPU6 PHB NIC1; GPU7 SYS NIC1"},
    {"matrices/a100_18hca_quads_cut.txt", 8, 8,
     "GPU0 PXB mlx5_4+mlx5_5; GPU1 PXB mlx5_6+mlx5_7; GPU2 PXB mlx5_0+mlx5_1; "
     "GPU3 PXB mlx5_2+mlx5_3"},
    {"matrices/b200_lost_nvlink_cut.txt", 8, 6,
     "GPU0 PXB NIC0; GPU1 PXB NIC1; GPU2 PXB NIC2; GPU3 PXB NIC3; GPU4 PXB NIC4; GPU5 PXB NIC5"},
    {"matrices/b300_cx8_bond.txt", 8, 8,
     "GPU0 PXB mlx5_bond_0; GPU1 PXB mlx5_bond_1; GPU2 PXB mlx5_bond_2; GPU3 PXB mlx5_bond_3; "
     "GPU4 PXB mlx5_bond_4; GPU5 PXB mlx5_bond_5; GPU6 PXB mlx5_bond_6; GPU7 PXB mlx5_bond_7"},
    {"matrices/dgxa100_12hca.txt", 8, 8,
     "GPU0 PXB mlx5_0; GPU1 PXB mlx5_1; GPU2 PXB mlx5_2; GPU3 PXB mlx5_3; GPU4 PXB mlx5_6; "
     "GPU5 PXB mlx5_7; GPU6 PXB mlx5_8; GPU7 PXB mlx5_9"},
    {"matrices/dgxh100_glued_cells_cut.txt", 8, 8,
     "GPU0 PXB NIC0; GPU1 PXB NIC3; GPU2 PXB NIC4; GPU3 PXB NIC5; GPU4 PXB NIC6; "
     "GPU5 PXB NIC9; GPU6 PXB NIC10; GPU7 PXB NIC11"},
    {"matrices/h100_4numa_uneven_cut.txt", 8, 6,
     "GPU0 PIX NIC0; GPU1 PIX NIC1; GPU2 PIX NIC2; GPU3 PIX NIC4; GPU4 PIX NIC5; GPU5 PIX NIC6"},
    {"matrices/h100_pairs_tie_cut.txt", 8, 6,
     "GPU0 PIX NIC0; GPU1 PIX NIC1; GPU2 PIX NIC2; GPU3 PIX NIC3; GPU4 PIX NIC4; GPU5 PIX NIC5"},
    {"matrices/h200_4g_isolated_rails.txt", 4, 2,
     "GPU0 PIX rocep80s0; GPU1 PIX rocep80s0; GPU2 PIX rocep203s0; GPU3 PIX rocep203s0"},
    {"matrices/horovod288_sparse_cpus.txt", 4, 1, "GPU0 SYS mlx5_0; GPU1 SYS mlx5_0; GPU2 SYS mlx5_0; GPU3 SYS mlx5_0"},
    {"matrices/nv4_3nic_cpuset.txt", 4, 3, "GPU0 NODE mlx5_0; GPU1 NODE mlx5_1; GPU2 NODE mlx5_2; GPU3 NODE mlx5_2"},
    {"matrices/one_gpu_5bond_container.txt", 1, 1, "GPU0 PXB mlx5_bond_3"},
    {"matrices/rtx6000ada_4g4n.txt", 4, 4, "GPU0 NODE mlx5_0; GPU1 NODE mlx5_1; GPU2 NODE mlx5_2; GPU3 NODE mlx5_3"},
    {"matrices/traverse_cgroup.txt", 1, 4, "GPU0 SYS mlx5_0+mlx5_1+mlx5_2+mlx5_3"},
    {"matrices/v100_4hca_1numa.txt", 8, 2,
     "GPU0 PIX mlx5_0; GPU1 PIX mlx5_0; GPU2 PIX mlx5_0; GPU3 PIX mlx5_0; GPU4 PIX mlx5_2; "
     "GPU5 PIX mlx5_2; GPU6 PIX mlx5_2; GPU7 PIX mlx5_2"},
};

/// What else must be said about a file.
struct Saying {
  const char* file;
  const char* text;  // in a warning
};

const Saying kSayings[] = {
    {"nccl_xml/aws_p5_contrib_2026.xml", "not on the bus that their names say"},
    {"nccl_xml/perlmutter_4a100_slingshot.xml", "0 rails are usable over verbs"},
    {"nccl_xml/rccl_8p6l_3nic.xml", "loaded unevenly: 2, 2, 4 GPUs"},
    {"nccl_xml/rccl_rome_n4.xml", "no port is near"},
    {"nccl_xml/yccl_a6000x4_noib.xml", "no RDMA NIC: data goes over TCP on eno1np0, eno2np1"},
    {"nccl_xml/sugarlxn_4090_gaps.xml", "no RDMA NIC: data goes over TCP on enp34s0f0"},
    {"nccl_xml/gb10_wifi_c2c.xml", "no physical interface for TCP either"},
    {"hwloc_xml/aws_c5n_nogpu.xml", "no GPU"},
    {"hwloc_xml/chimera_mixed_vendor_v1.xml", "cannot work on one buffer"},
    {"matrices/b200_lost_nvlink_cut.txt", "GPU2 has no NVLink"},
    {"matrices/traverse_cgroup.txt", "cannot be decided"},
    {"matrices/v100_4hca_1numa.txt", "mlx5_1 is idle: it is PHB to GPU0, GPU1, GPU2, GPU3"},
};

std::string given(const Machine& m, const Paths& paths, const RailChoice& choice) {
  std::string text;
  for (int g : by_index(m)) {
    const GpuRails& a = choice.assignment[g];
    if (a.rails.empty()) continue;
    text += fmt::format("{}{} {} ", text.empty() ? "" : "; ", m.gpus[g].name, name_of(a.path));
    for (size_t i = 0; i < a.rails.size(); ++i) text += (i ? "+" : "") + port_name(m, choice.rails[a.rails[i]].net);
    EXPECT_EQ(paths.gpu_net[g][choice.rails[a.rails[0]].net].kind, a.path);
  }
  return text;
}

void expect_answer(const std::string& folder, const Answer& answer) {
  SCOPED_TRACE(answer.file);
  auto machine = load_machine(folder + "/" + answer.file);
  ASSERT_TRUE(machine) << machine.error().message;
  const Paths paths = find_paths(*machine);
  const RailChoice choice = choose_rails(*machine, paths);
  EXPECT_EQ(machine->gpus.size(), answer.gpus);
  EXPECT_EQ(choice.rails.size(), answer.rails);
  EXPECT_EQ(given(*machine, paths, choice), answer.assignment);
  // Every port is either a rail or has a reason.
  EXPECT_EQ(choice.rails.size() + choice.rejected.size(), machine->nets.size());
}

TEST(RightAnswers, AreGivenForOurFixtures) {
  for (const Answer& answer : kFixtures) expect_answer(TOPOLOGY_FIXTURES, answer);
}

bool have_public() {
  return std::filesystem::exists(SHARED_TOPOLOGIES "/INDEX.md");
}

TEST(RightAnswers, AreGivenForPublicFiles) {
  if (!have_public()) GTEST_SKIP() << "no " << SHARED_TOPOLOGIES << ": the public topology files are not here";
  for (const Answer& answer : kPublic) expect_answer(SHARED_TOPOLOGIES, answer);
}

TEST(RightAnswers, SayWhatIsOddAboutPublicFiles) {
  if (!have_public()) GTEST_SKIP() << "no " << SHARED_TOPOLOGIES << ": the public topology files are not here";
  for (const Saying& saying : kSayings) {
    auto machine = load_machine(std::string(SHARED_TOPOLOGIES "/") + saying.file);
    ASSERT_TRUE(machine) << machine.error().message;
    const auto warnings = choose(*machine).warnings;
    EXPECT_TRUE(says(warnings, saying.text)) << saying.file << ": " << testing::PrintToString(warnings);
  }
}

TEST(RightAnswers, RefuseAnEmptyPublicFile) {
  if (!have_public()) GTEST_SKIP() << "no " << SHARED_TOPOLOGIES << ": the public topology files are not here";
  auto machine = load_machine(SHARED_TOPOLOGIES "/nccl_xml/rccl_empty.xml");
  ASSERT_FALSE(machine);
  EXPECT_NE(machine.error().message.find("the file is empty"), std::string::npos);
}

}  // namespace
}  // namespace twohop::topology
