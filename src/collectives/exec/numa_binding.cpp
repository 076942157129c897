// See numa_binding.hpp.
#include "collectives/exec/numa_binding.hpp"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace twohop {
namespace {

constexpr int kMaxCpus = 1 << 14, kMaxNodes = 1 << 10;

/// A set of CPUs of any size; cpu_set_t ends at 1024.
class CpuMask {
 public:
  CpuMask() : set_(CPU_ALLOC(kMaxCpus)) { CPU_ZERO_S(bytes(), set_.get()); }

  static CpuMask of_process() {
    CpuMask mask;
    // Of the process, not of this thread, which may have been bound before.
    if (sched_getaffinity(getpid(), bytes(), mask.set_.get()) != 0) CPU_ZERO_S(bytes(), mask.set_.get());
    return mask;
  }

  void add(int cpu) {
    if (cpu >= 0 && cpu < kMaxCpus) CPU_SET_S(static_cast<size_t>(cpu), bytes(), set_.get());
  }
  bool has(int cpu) const {
    return cpu >= 0 && cpu < kMaxCpus && CPU_ISSET_S(static_cast<size_t>(cpu), bytes(), set_.get());
  }
  int count() const { return CPU_COUNT_S(bytes(), set_.get()); }
  bool apply() const { return sched_setaffinity(0, bytes(), set_.get()) == 0; }

 private:
  static size_t bytes() { return CPU_ALLOC_SIZE(kMaxCpus); }
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  std::unique_ptr<cpu_set_t, Free> set_;
};

/// What of `ranges` is in `allowed`.
CpuMask common(const CpuMask& allowed, const std::vector<topology::CpuRange>& ranges) {
  CpuMask mask;
  for (const topology::CpuRange& r : ranges)
    for (int cpu = std::max(r.first, 0); cpu <= std::min(r.last, kMaxCpus - 1); ++cpu)
      if (allowed.has(cpu)) mask.add(cpu);
  return mask;
}

}  // namespace

NumaBinding numa_binding(const topology::Machine& machine, int numa) {
  if (numa == topology::kNone || machine.numas.size() < 2) return {};
  const topology::NumaNode& node = machine.numas[static_cast<size_t>(numa)];
  if (node.os_index < 0 || node.os_index >= kMaxNodes) return {};
  return {node.os_index, node.cpus};
}

bool bind_this_thread(const NumaBinding& binding) {
  if (!binding || binding.cpus.empty()) return false;
  const CpuMask mask = common(CpuMask::of_process(), binding.cpus);
  return mask.count() > 0 && mask.apply();
}

bool bind_memory(const NumaBinding& binding, std::span<std::byte> memory) {
  if (!binding || memory.empty()) return false;
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> nodes(kMaxNodes / kBits, 0);
  nodes[static_cast<size_t>(binding.node) / kBits] |= 1UL << (static_cast<size_t>(binding.node) % kBits);
  // Preferred, not bound: a full node is no reason to fail.
  return syscall(SYS_mbind, memory.data(), memory.size(), MPOL_PREFERRED, nodes.data(), kMaxNodes, 0) == 0;
}

int numa_of_this_process(const topology::Machine& machine) {
  const CpuMask allowed = CpuMask::of_process();
  const int all = allowed.count();
  for (size_t n = 0; n < machine.numas.size(); ++n)
    if (all > 0 && common(allowed, machine.numas[n].cpus).count() == all) return static_cast<int>(n);
  return topology::kNone;
}

}  // namespace twohop
