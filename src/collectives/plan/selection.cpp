// See selection.hpp.
#include "collectives/plan/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace twohop {
namespace {

constexpr std::string_view kAuto = "auto", kOneShot = "one-shot", kFallback = "two-hop";
/// While n times the buffer is no more than this, one-shot is quicker: on one node (2 to 8 ranks), and on 2 to 4
/// virtual nodes over TCP and the emulated device, 2026-11 (docs/algorithms.md has the table).
constexpr uint64_t kOneShotBytes = 64 << 10;

}  // namespace

std::string accepted_selections() {
  std::string text = "auto, or a comma separated list of ";
  for (const Algorithm& a : algorithms()) text += fmt::format("{}{}", a.name == kFallback ? "" : ", ", a.name);
  return text + " (^ before it: all but these)";
}

Selection::Selection() = default;

Result<Selection> Selection::parse(std::string_view text) {
  const auto refuse = [&] {
    return make_error(twohopInvalidArgument, "algorithm \"{:.64}\": accepted are {}", text, accepted_selections());
  };
  Selection s;
  if (text == kAuto) return s;
  s.auto_ = false;
  const bool excludes = text.starts_with('^');
  std::vector<std::string_view> named;
  for (std::string_view rest = text.substr(excludes ? 1 : 0);;) {
    const size_t comma = rest.find(',');
    const Algorithm* a = find_algorithm(rest.substr(0, comma));
    if (!a) return refuse();
    named.push_back(a->name);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  for (const Algorithm& a : algorithms())
    if ((std::find(named.begin(), named.end(), a.name) == named.end()) == excludes) s.names_.push_back(a.name);
  if (s.names_.empty()) return refuse();
  return s;
}

bool Selection::may_use(std::string_view name) const {
  return auto_ || std::find(names_.begin(), names_.end(), name) != names_.end();
}

bool Selection::allows(const Algorithm& algorithm, const Cluster& cluster, Collective collective) const {
  return may_use(algorithm.name) && algorithm.supports(cluster, collective);
}

std::vector<const Algorithm*> Selection::allowed(const Cluster& cluster, Collective collective) const {
  std::vector<const Algorithm*> found;
  for (const Algorithm& a : algorithms())
    if (allows(a, cluster, collective)) found.push_back(&a);
  return found;
}

uint64_t Selection::little_bytes(const Cluster& cluster) {
  return kOneShotBytes / static_cast<uint64_t>(cluster.nranks());
}

std::vector<const Algorithm*> Selection::worth_comparing(const Cluster& cluster, Collective collective) const {
  // flat-naive and flat-tree send more than flat and two-hop-tree; the other node-rings differ from node-ring as the
  // exchanges do, which are compared without them. On one node there is no exchange.
  constexpr std::string_view kSeveralNodes[] = {"two-hop",   "two-hop-tree", "two-hop-log",
                                                "node-ring", "one-shot",     "flat"};
  constexpr std::string_view kOneNode[] = {"two-hop", "node-ring", "one-shot", "flat"};
  auto found = allowed(cluster, collective);
  if (!auto_) return found;
  const std::span<const std::string_view> names =
      cluster.nnodes() > 1 ? std::span<const std::string_view>(kSeveralNodes) : kOneNode;
  std::erase_if(found,
                [&](const Algorithm* a) { return std::find(names.begin(), names.end(), a->name) == names.end(); });
  return found;
}

const Algorithm* Selection::first_but_one_shot(const Cluster& cluster, Collective collective) const {
  for (const Algorithm& a : algorithms())
    if (a.name != kOneShot && may_use(a.name) && a.supports(cluster, collective)) return &a;
  return nullptr;
}

const Algorithm& Selection::choose(const Cluster& cluster, Collective collective, uint64_t bytes) const {
  const Algorithm* one_shot = may_use(kOneShot) ? find_algorithm(kOneShot) : nullptr;
  if (one_shot && !one_shot->supports(cluster, collective)) one_shot = nullptr;
  const Algorithm* first = first_but_one_shot(cluster, collective);
  if (one_shot && (!first || bytes <= little_bytes(cluster))) return *one_shot;
  return first ? *first : *find_algorithm(kFallback);
}

std::vector<const Algorithm*> Selection::reachable(const Cluster& cluster) const {
  std::vector<const Algorithm*> found;
  for (const Algorithm& a : algorithms())
    for (const Collective c : kCollectives)
      if (&choose(cluster, c, 0) == &a || &choose(cluster, c, UINT64_MAX) == &a) {
        found.push_back(&a);
        break;
      }
  return found;
}

}  // namespace twohop
