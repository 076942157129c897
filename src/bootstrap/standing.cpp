// See standing.hpp.
#include "bootstrap/standing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace twohop {
namespace {

std::string late_text(int rank, const Standing& s, uint64_t call) {
  if (s.place == Standing::Place::kLeft)
    return fmt::format("rank {} has destroyed its communicator after call {}", rank, s.call);
  return fmt::format("rank {} has not entered call {}: it has finished call {} and is outside of twohop", rank, call,
                     s.call);
}

/// Outside of any call, and this one still before it.
bool not_entered(const std::optional<Standing>& s, uint64_t call) {
  return s->place != Standing::Place::kInCall && s->call < call;
}

/// Follows "waits for" from `rank` to one who does not say for whom he waits, or back to one already met.
std::string end_of_chain(std::span<const std::optional<Standing>> standings, int rank) {
  std::vector<int> met{rank};
  for (;;) {
    const Standing& s = *standings[static_cast<size_t>(met.back())];
    const int next = s.waits_for;
    if (next < 0 || static_cast<size_t>(next) >= standings.size()) {
      return fmt::format("rank {} is in call {} and has moved {:.1f} s ago", met.back(), s.call, s.still_ms / 1e3);
    }
    if (std::find(met.begin(), met.end(), next) != met.end()) {
      met.push_back(next);
      return fmt::format("ranks {} wait for each other in a circle", fmt::join(met, " -> "));
    }
    met.push_back(next);
  }
}

/// Is a count, which may have overflowed, the larger one of two that are near each other?
bool exceeds(uint32_t a, uint32_t b) {
  return static_cast<int32_t>(a - b) > 0;
}

}  // namespace

Bytes encode(int rank, const Standing& s) {
  Writer w;
  w.i32(rank);
  w.u8(static_cast<uint8_t>(s.place));
  w.u32(static_cast<uint32_t>(s.call));
  w.u32(static_cast<uint32_t>(s.call >> 32));
  w.i32(s.waits_for);
  w.u32(s.still_ms);
  w.u32(s.host_calls);
  w.u32(s.gpu_calls);
  return w.take();
}

std::optional<std::pair<int, Standing>> decode_standing(std::span<const std::byte> data) {
  Reader r(data);
  const int rank = r.i32();
  const uint8_t place = r.u8();
  Standing s;
  s.call = r.u32();
  s.call |= uint64_t{r.u32()} << 32;
  s.waits_for = r.i32();
  s.still_ms = r.u32();
  s.host_calls = r.u32();
  s.gpu_calls = r.u32();
  if (!r.complete() || rank < 0 || place > static_cast<uint8_t>(Standing::Place::kLeft)) return std::nullopt;
  s.place = static_cast<Standing::Place>(place);
  return std::pair(rank, s);
}

/// Of one sequence of calls, who is further has made as many calls of both kinds at least.
std::optional<std::string> who_calls_elsewhere(std::span<const std::optional<Standing>> standings) {
  for (size_t a = 0; a < standings.size(); ++a)
    for (size_t b = 0; b < standings.size(); ++b) {
      const auto &on_host = standings[a], &on_gpu = standings[b];
      if (!on_host || !on_gpu || on_host->place == Standing::Place::kLeft || on_gpu->place == Standing::Place::kLeft)
        continue;
      if (exceeds(on_host->host_calls, on_gpu->host_calls) && exceeds(on_gpu->gpu_calls, on_host->gpu_calls))
        return fmt::format(
            "rank {} makes a call on host memory where rank {} makes one on GPU memory (they have made {} and {} calls "
            "on "
            "host memory, {} and {} on GPU memory)",
            a, b, on_host->host_calls, on_gpu->host_calls, on_host->gpu_calls, on_gpu->gpu_calls);
    }
  return std::nullopt;
}

std::string who_is_late(std::span<const std::optional<Standing>> standings, int rank, uint64_t call) {
  std::vector<int> silent;
  for (size_t r = 0; r < standings.size(); ++r)
    if (!standings[r]) silent.push_back(static_cast<int>(r));
  if (!silent.empty())
    return fmt::format("rank(s) {} did not say where they are: stopped, or their host is in trouble",
                       rank_list(silent));
  for (size_t r = 0; r < standings.size(); ++r)
    if (not_entered(standings[r], call)) return late_text(static_cast<int>(r), *standings[r], call);
  return end_of_chain(standings, rank);
}

}  // namespace twohop
