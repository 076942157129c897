// A machine as JSON: written and read, without loss for every source.
//
//   {"format": "twohop-machine", "version": 1, "kind": "nccl-xml", "numas": [...], "pci": [...], "gpus": [...], ...}
//
// A document that holds such an object as its member "machine" is read too.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "topology/machine.hpp"

namespace twohop::topology {

std::string write_json(const Machine& machine);
/// The same as a value, to be made part of a larger document.
nlohmann::ordered_json to_json_value(const Machine& machine);

/// `source` is the file's name for messages; Machine::source is what the text says. Unknown members are skipped.
Result<Machine> read_json(std::string_view text, const std::string& source);

}  // namespace twohop::topology
