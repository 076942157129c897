// How far is each GPU from each other GPU and from each network port? Path classes from the PCI tree, or as a matrix
// states them. Which port a GPU should use is decided in rails.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/enums.hpp"
#include "topology/machine.hpp"

namespace twohop::topology {

struct Path {
  PathClass kind = PathClass::kSys;
  /// Bridges from the GPU up to the switch it shares with the other end: of two PXB paths the one with fewer is the
  /// nearer. 0 where no switch is shared.
  int climb = 0;
  int nvlinks = 0;    // kNvl between GPUs: links of the pair, or of the weaker end to the NVSwitch
  bool known = true;  // false: the source says nothing about this pair; `kind` is then kSys
};

struct Paths {
  std::vector<std::vector<Path>> gpu_gpu, gpu_net;  // indexed as Machine::gpus and Machine::nets
};

/// One switch element between the two: PIX; two or more: PXB; only a host bridge (of an NCCL XML: only the <cpu>): PHB;
/// host bridges of one NUMA node: NODE; other NUMA nodes: SYS. NVLink and xGMI come before all of these.
Paths find_paths(const Machine& machine);

/// Near enough to be used without a warning: nothing between NUMA nodes is crossed.
constexpr bool is_near(PathClass kind) {
  return kind != PathClass::kSys;
}

}  // namespace twohop::topology
