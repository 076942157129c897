// A machine from a file, whatever its format: NCCL XML, hwloc XML, JSON of ours, nvidia-smi topo -m, or the texts of
// ibv_devinfo and its like. The content decides, not the name.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "topology/machine.hpp"

namespace twohop::topology {

constexpr size_t kMaxFileBytes = 64U << 20;

Result<Machine> load_machine(const std::string& path);

/// The same for a text in memory; `source` is its name, for messages and Machine::source.
Result<Machine> parse_machine(std::string_view bytes, const std::string& source);

/// Writes NCCL XML where `path` ends in .xml, else JSON (TWOHOP_TOPO_DUMP_FILE). A machine that NCCL XML cannot hold is
/// an error that says so.
Result<void> dump_machine(const Machine& machine, const std::string& path);

}  // namespace twohop::topology
