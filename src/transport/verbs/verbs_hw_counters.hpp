// What does the device itself say about trouble? Its counters in sysfs, and which of them have moved.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace twohop::verbs {

using HwCounters = std::map<std::string, uint64_t>;

/// All counters of a port: `ibdev_path`/ports/N/hw_counters and counters. Empty where there are none.
HwCounters read_hw_counters(const std::string& ibdev_path, int port);

/// One folder of a port, "counters" or "hw_counters".
HwCounters read_hw_counters(const std::string& ibdev_path, int port, const char* folder);

/// How often the port has sent something again: timeouts, sequence NAKs, receiver-not-ready NAKs. nullopt where the
/// device counts none of them under a name that is known here.
std::optional<uint64_t> retries_in(const HwCounters& counters);
/// How often the port was told that a peer has no receive posted; 0 where the device does not count that.
uint64_t not_ready_in(const HwCounters& counters);
/// The same as retries_in(), reading only the files that it needs.
std::optional<uint64_t> read_retries(const std::string& ibdev_path, int port);

/// "retry_exceeded_err +1, out_of_sequence +3": those that stand for trouble and have moved; "none" if none has.
std::string moved(const HwCounters& before, const HwCounters& now);

}  // namespace twohop::verbs
