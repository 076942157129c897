// The first message of each end: which protocol, which machine.
#pragma once

#include <nlohmann/json.hpp>

#include "ports.hpp"

namespace twohop::verbs_perf {

nlohmann::json hello_message(const Ports& ports);
/// The error says what the other end is instead.
Result<> check_hello(const nlohmann::json& theirs);

}  // namespace twohop::verbs_perf
