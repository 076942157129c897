// What does a twohopConfig_t of any version mean? Checks it, and fills what it leaves open from the options.
#pragma once

#include "base/options.hpp"
#include "base/result.hpp"
#include "collectives/exec/communicator.hpp"

namespace twohop {

/// `config` may be null. A smaller struct of an older version is accepted, as is a larger one whose further fields are
/// all zero. Errors name the field, its value and what is accepted.
Result<CommConfig> resolve_config(const twohopConfig_t* config, const Options& options);

}  // namespace twohop
