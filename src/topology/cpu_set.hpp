// Sets of CPU numbers as text: the kernel's masks and lists, and hwloc's bitmaps.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/machine.hpp"

namespace twohop::topology {

constexpr int kMaxCpus = 1 << 16;  // beyond it a number is a mistake, not a CPU

/// "0000ffff,ffff0000", "0x000000ff,,0x0" (an empty word is 0), most significant word first, 32 bits a word.
/// Nothing where the text is something else. hwloc's "0xf...f" (all that exist) gives the empty set: not known.
std::optional<std::vector<CpuRange>> parse_cpu_mask(std::string_view text);

/// "0-3,8,10-11"; the ranges come back merged and in order. Nothing where the text is something else.
std::optional<std::vector<CpuRange>> parse_cpu_list(std::string_view text);

/// As the kernel writes it: "000000ff,ffff0000". Empty for the empty set.
std::string to_cpu_mask(const std::vector<CpuRange>& cpus);
std::string to_cpu_list(const std::vector<CpuRange>& cpus);

/// Merges ranges that touch or overlap, and sorts them.
std::vector<CpuRange> merged(std::vector<CpuRange> cpus);

}  // namespace twohop::topology
