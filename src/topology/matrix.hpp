// The text of `nvidia-smi topo -m`, as users paste it into reports: read.
//
// It states path classes and has no PCI tree, so the machine gets Machine::given. Names stand in the header (mlx5_0) or
// in a legend (NIC0: mlx5_0). Cells that lost the space between them are split, or the text is refused: columns are
// never shifted. A text that was cut gives what it says; rows that are missing are taken from their columns or stay
// empty, with a note.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "topology/machine.hpp"

namespace twohop::topology {

/// Whether a text has the header of such a table.
bool looks_like_matrix(std::string_view text);

/// `source` is the file's name, for messages and Machine::source.
Result<Machine> read_matrix(std::string_view text, std::string source);

}  // namespace twohop::topology
