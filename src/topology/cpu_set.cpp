// Sets of CPU numbers: text in, ranges out, and back.
#include "topology/cpu_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "topology/text.hpp"

namespace twohop::topology {
namespace {

constexpr int kWordBits = 32;

void add_word(uint32_t word, int first_cpu, std::vector<CpuRange>& cpus) {
  for (int bit = 0; bit < kWordBits; ++bit) {
    if (((word >> bit) & 1U) == 0) continue;
    const int cpu = first_cpu + bit;
    if (!cpus.empty() && cpus.back().last == cpu - 1)
      cpus.back().last = cpu;
    else
      cpus.push_back({cpu, cpu});
  }
}

std::optional<uint32_t> mask_word(std::string_view text) {
  if (text.empty()) return 0U;
  if (text.starts_with("0x")) text.remove_prefix(2);
  uint32_t word = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), word, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return word;
}

}  // namespace

std::optional<std::vector<CpuRange>> parse_cpu_mask(std::string_view text) {
  if (text.find("...") != std::string_view::npos) return std::vector<CpuRange>{};
  std::vector<std::string_view> words = split(text, ',');
  while (!words.empty() && words.back().empty()) words.pop_back();  // some writers end in a comma
  if (words.empty() || words.size() > kMaxCpus / kWordBits) return std::nullopt;
  std::vector<CpuRange> cpus;
  for (size_t i = words.size(); i-- > 0;) {
    const auto word = mask_word(trim(words[i]));
    if (!word) return std::nullopt;
    add_word(*word, static_cast<int>(words.size() - 1 - i) * kWordBits, cpus);
  }
  return cpus;
}

std::optional<std::vector<CpuRange>> parse_cpu_list(std::string_view text) {
  std::vector<CpuRange> cpus;
  for (std::string_view part : split(text, ',')) {
    part = trim(part);
    const size_t dash = part.find('-');
    const auto first = parse_int(part.substr(0, dash), 0, kMaxCpus);
    const auto last = dash == std::string_view::npos ? first : parse_int(part.substr(dash + 1), 0, kMaxCpus);
    if (!first || !last || *last < *first) return std::nullopt;
    cpus.push_back({static_cast<int>(*first), static_cast<int>(*last)});
  }
  return merged(std::move(cpus));
}

std::vector<CpuRange> merged(std::vector<CpuRange> cpus) {
  std::sort(cpus.begin(), cpus.end(), [](const CpuRange& a, const CpuRange& b) { return a.first < b.first; });
  std::vector<CpuRange> out;
  for (const CpuRange& range : cpus) {
    if (!out.empty() && range.first <= out.back().last + 1)
      out.back().last = std::max(out.back().last, range.last);
    else
      out.push_back(range);
  }
  return out;
}

std::string to_cpu_mask(const std::vector<CpuRange>& cpus) {
  if (cpus.empty()) return "";
  std::vector<uint32_t> words(static_cast<size_t>(cpus.back().last / kWordBits) + 1);
  for (const CpuRange& range : cpus)
    for (int cpu = range.first; cpu <= range.last; ++cpu)
      words[static_cast<size_t>(cpu / kWordBits)] |= 1U << (cpu % kWordBits);
  std::string text;
  for (size_t i = words.size(); i-- > 0;) text += fmt::format("{:08x}{}", words[i], i == 0 ? "" : ",");
  return text;
}

std::string to_cpu_list(const std::vector<CpuRange>& cpus) {
  std::string text;
  for (const auto& [first, last] : cpus) {
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

}  // namespace twohop::topology
