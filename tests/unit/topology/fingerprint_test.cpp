// Fingerprints: equal for equal machines on different hosts, different for what a plan depends on.
#include "topology/fingerprint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "topology/load.hpp"
#include "unit/topology/files.hpp"

namespace twohop::topology {
namespace {

using testing::HasSubstr;

Machine dgx() {
  return *load_machine(fixture("dgx_like.xml"));
}

TEST(Fingerprint, IsEqualForEqualMachinesOnDifferentHosts) {
  Machine other = dgx();
  for (PciNode& node : other.pci) node.bus.domain += 7;
  for (Gpu& gpu : other.gpus) gpu.uuid = "other";
  for (NetPort& net : other.nets) {
    net.guid += 99;
    net.name = "renamed_" + net.name;
    net.state = LinkState::kDown;
  }
  other.source = "elsewhere";
  other.notes.push_back({});
  NetPort veth;
  veth.name = "veth1";
  veth.kind = NetKind::kVirtual;
  other.nets.push_back(veth);
  EXPECT_EQ(fingerprint(other), fingerprint(dgx()));
}

TEST(Fingerprint, DoesNotDependOnTheOrderOfPorts) {
  Machine other = dgx();
  std::swap(other.nets[8], other.nets[9]);
  EXPECT_EQ(fingerprint(other).summary, fingerprint(dgx()).summary);
}

TEST(Fingerprint, DiffersWithWhatAPlanDependsOn) {
  std::set<uint64_t> hashes = {fingerprint(dgx()).hash};
  const auto add = [&](const auto& change) {
    Machine m = dgx();
    change(m);
    return hashes.insert(fingerprint(m).hash).second;
  };
  EXPECT_TRUE(add([](Machine& m) { m.gpus[0].sm = 80; }));
  EXPECT_TRUE(add([](Machine& m) { m.gpus.pop_back(), m.links.pop_back(); }));
  EXPECT_TRUE(add([](Machine& m) { m.nets[0].gbit_per_s = 200; }));
  EXPECT_TRUE(add([](Machine& m) { m.nets.pop_back(); }));
  EXPECT_TRUE(add([](Machine& m) { m.links[0].count = 17; }));
  EXPECT_TRUE(add([](Machine& m) { m.nets[0].pci = m.nets[1].pci; }));
  EXPECT_TRUE(add([](Machine& m) { m.nets[0].kind = NetKind::kOtherRdma; }));
  for (const auto& path : files_in(TOPOLOGY_FIXTURES))
    if (path.filename() != "dgx_like.xml") {
      EXPECT_TRUE(hashes.insert(fingerprint(*load_machine(path)).hash).second) << path;
    }
}

TEST(Fingerprint, HasTheSameValueOnEveryHost) {
  EXPECT_EQ(fingerprint(Machine{}).hash, 0xcbf29ce484222325U);
  EXPECT_EQ(fingerprint(Machine{}).summary, "no GPU, no network port, 0 NUMA nodes");
}

TEST(Fingerprint, SumsUpForPeople) {
  const std::string summary = fingerprint(dgx()).summary;
  EXPECT_THAT(summary, HasSubstr("8 x nvidia GPU sm 90 (nvlink)"));
  EXPECT_THAT(summary, HasSubstr("8 x RDMA infiniband 400 Gbit/s"));
  EXPECT_THAT(summary, HasSubstr("2 NUMA nodes"));
}

}  // namespace
}  // namespace twohop::topology
