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

}  // namespace

Bytes encode(int rank, const Standing& s) {
  Writer w;
  w.i32(rank);
  w.u8(static_cast<uint8_t>(s.place));
  w.u32(static_cast<uint32_t>(s.call));
  w.u32(static_cast<uint32_t>(s.call >> 32));
  w.i32(s.waits_for);
  w.u32(s.still_ms);
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
  if (!r.complete() || rank < 0 || place > static_cast<uint8_t>(Standing::Place::kLeft)) return std::nullopt;
  s.place = static_cast<Standing::Place>(place);
  return std::pair(rank, s);
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
