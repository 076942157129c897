// What every reader does at its end: numbers and names of GPUs, notes on what looks broken, and the check that a
// machine from outside hangs together.
#pragma once

#include "base/result.hpp"
#include "topology/machine.hpp"

namespace twohop::topology {

/// Numbers the GPUs that have no index yet, by bus id, as the vendors' tools do; names all ("GPU3", "GPU0.1" of an
/// mlopart).
void name_gpus(Machine& machine);

/// Numbers the ports that have no dev yet; NCCL wants one on each.
void number_nets(Machine& machine);

/// GPUs in the order of their numbers, whatever order the source has; links follow. After name_gpus.
void sort_gpus(Machine& machine);

constexpr int kMaxGpuLinks = 1024;  // of one GPU to one target; far beyond what exists

/// One link per (GPU, peer, kind), counts and rates added up, in the order of first appearance.
void merge_links(Machine& machine);

/// A warning for each GPU without GPU links where others of the same PCI device have some: a link that is down.
void note_missing_links(Machine& machine);

void add_note(Machine& machine, Note::Level level, std::string text);

/// Indices in range, parents before children, names unique, numbers finite and not negative. The message says what is
/// wrong.
Result<void> check_machine(const Machine& machine);

}  // namespace twohop::topology
