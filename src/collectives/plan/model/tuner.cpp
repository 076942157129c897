// See tuner.hpp: the sizes that are looked at, and the borders between them.
#include "collectives/plan/model/tuner.hpp"

#include <algorithm>
#include <cmath>

namespace twohop {
namespace {

/// Where choices are looked at first; between two of them with different winners the border is searched for.
constexpr uint64_t kSizes[] = {8, 4 << 10, 64 << 10, 1 << 20, 16 << 20};
constexpr size_t kProbes[] = {0, 2, 4};   // of these, by which algorithms without a chance are found
constexpr double kFarBehind = 1.5;        // an algorithm so much slower than the fastest at all probes has none
constexpr double kBorderPrecision = 1.2;  // a border lies within 20 % of where both neighbours cost the same
constexpr double kClose = 1.1;            // so near to the fastest, an estimate of long calls is made exact
constexpr double kContends = 1.3;         // only what is so near to the fastest at an end can win between
constexpr uint64_t kPaceRounds = 16;      // walked, to make the estimates of long calls exact,
constexpr uint64_t kPaceSteps = 20'000;   // where these rounds have no more steps in a channel
constexpr double kShareForPaces = 0.5, kShareForCuts = 0.7;  // of the allowance
constexpr uint64_t kSmallestCut = 64 << 10;                  // smaller buffers are left whole
/// What an estimate can tell apart. Within it the first of the table is taken, and the largest chunks.
constexpr double kGrain = 1.05, kWorthCutting = 1.06;

class Tuning {
 public:
  Tuning(Predictor& predictor, const TunerSpace& space, Collective collective)
      : predictor_(predictor), space_(space), collective_(collective), begin_(predictor.steps_walked()) {}

  std::vector<TunerRow> rows() {
    for (const Algorithm* a : algorithms_of(space_, predictor_.cluster(), collective_))
      runners_.push_back({{a, space_.max_chunk_bytes, space_.max_channels, space_.batch}});
    if (runners_.empty()) return {};
    if (runners_.size() > 1) drop_those_without_a_chance();
    if (runners_.size() > 1) find_paces();
    std::vector<Point> points;
    for (uint64_t bytes : kSizes) points.push_back(look_at(bytes));
    for (Point& p : points)
      if (p.bytes >= kSmallestCut && affordable(kShareForCuts)) find_cut(p);
    std::vector<TunerRow> rows;
    for (size_t i = 0; i + 1 < points.size(); ++i) add_borders(points[i], points[i + 1], rows);
    rows.push_back({collective_, UINT64_MAX, points.back().choice});
    return rows;
  }

 private:
  struct Runner {
    Choice base;
    double pace = 1;
  };
  /// A size, what each runner costs there, and what is best.
  struct Point {
    uint64_t bytes = 0;
    std::vector<double> times_us;
    Choice choice;
    double best() const { return *std::min_element(times_us.begin(), times_us.end()); }
  };

  double time_us(const Runner& r, const Choice& choice, uint64_t bytes) {
    return predictor_.estimate_us(choice, collective_, bytes, r.pace);
  }
  bool affordable(double share) const {
    return static_cast<double>(predictor_.steps_walked() - begin_) < share * static_cast<double>(space_.steps);
  }

  void drop_those_without_a_chance() {
    std::vector<double> nearest(runners_.size(), HUGE_VAL);
    for (size_t probe : kProbes) {
      const Point p = look_at(kSizes[probe]);
      for (size_t i = 0; i < nearest.size(); ++i) nearest[i] = std::min(nearest[i], p.times_us[i] / p.best());
    }
    size_t i = 0;
    std::erase_if(runners_, [&](const Runner&) { return nearest[i++] > kFarBehind; });
  }
  /// Long calls: the estimates of those that are near each other are held against walks.
  void find_paces() {
    const Point p = look_at(kSizes[kProbes[2]]);
    for (size_t i = 0; i < runners_.size(); ++i) {
      Runner& r = runners_[i];
      const uint64_t steps = predictor_.program(*r.base.algorithm, collective_).steps * kPaceRounds;
      if (p.times_us[i] > kClose * p.best() || steps > kPaceSteps || !affordable(kShareForPaces)) continue;
      r.pace = predictor_.pace(r.base, collective_, p.bytes, kPaceRounds);
    }
  }

  Point look_at(uint64_t bytes) {
    Point p{bytes, {}, {}};
    for (const Runner& r : runners_) p.times_us.push_back(time_us(r, r.base, bytes));
    choose(p);
    return p;
  }
  void choose(Point& p) const {
    const double limit = kGrain * p.best();
    const auto found = std::find_if(p.times_us.begin(), p.times_us.end(), [&](double t) { return t <= limit; });
    const auto first =
        found == p.times_us.end() ? p.times_us.begin() : found;  // where an absurd model gives no numbers
    p.choice = runners_[static_cast<size_t>(first - p.times_us.begin())].base;
  }
  /// Fewer channels, and smaller chunks for a longer pipeline, where they gain enough.
  void find_cut(Point& p) {
    const Runner& r = runner(p.choice);
    double time = time_us(r, r.base, p.bytes);
    auto cut = predictor_.cut(r.base, collective_, p.bytes);
    for (const Choice& c : cuts(r.base)) {
      const auto other = predictor_.cut(c, collective_, p.bytes);
      if (other == cut) continue;
      const double t = time_us(r, c, p.bytes);
      if (t * kWorthCutting > time) continue;
      p.choice = c;
      time = t;
      cut = other;
    }
  }
  static std::vector<Choice> cuts(const Choice& base) {
    std::vector<Choice> list(3, base);
    list[0].channels = 1;
    list[1].chunk_bytes = std::max(kChunkAlign, base.chunk_bytes / 2);
    list[2].chunk_bytes = std::max(kChunkAlign, base.chunk_bytes / 4);
    return list;
  }

  const Runner& runner(const Choice& c) const {
    return *std::find_if(runners_.begin(), runners_.end(),
                         [&](const Runner& r) { return r.base.algorithm == c.algorithm; });
  }
  /// Rows for the sizes from `low` to where `high` is best.
  void add_borders(const Point& low, const Point& high, std::vector<TunerRow>& rows) {
    if (low.choice == high.choice) return;
    const double ratio = static_cast<double>(high.bytes) / static_cast<double>(low.bytes);
    if (ratio <= kBorderPrecision || !affordable(1)) {
      rows.push_back({collective_, low.bytes, low.choice});
      return;
    }
    const Point middle = between(low, high, static_cast<uint64_t>(static_cast<double>(low.bytes) * std::sqrt(ratio)));
    add_borders(low, middle, rows);
    add_borders(middle, high, rows);
  }
  /// What is best at an end, with the cut that was found there, stays so while nothing is clearly faster.
  Point between(const Point& low, const Point& high, uint64_t bytes) {
    Point p{bytes, std::vector<double>(runners_.size(), HUGE_VAL), {}};
    for (size_t i = 0; i < runners_.size(); ++i)
      if (low.times_us[i] <= kContends * low.best() || high.times_us[i] <= kContends * high.best())
        p.times_us[i] = time_us(runners_[i], runners_[i].base, bytes);
    choose(p);
    const double as_low = time_us(runner(low.choice), low.choice, bytes);
    const double as_high = time_us(runner(high.choice), high.choice, bytes);
    if (std::min(as_low, as_high) <= kGrain * p.best()) p.choice = as_low <= as_high ? low.choice : high.choice;
    return p;
  }

  Predictor& predictor_;
  const TunerSpace& space_;
  Collective collective_;
  uint64_t begin_;  // steps walked before
  std::vector<Runner> runners_;
};

}  // namespace

std::vector<const Algorithm*> algorithms_of(const TunerSpace& space, const Cluster& cluster, Collective collective) {
  std::vector<const Algorithm*> found;
  auto look = [&](const Algorithm* a) {
    if (a->supports(cluster, collective)) found.push_back(a);
  };
  for (const Algorithm* a : space.algorithms) look(a);
  if (space.algorithms.empty())
    for (const Algorithm& a : algorithms()) look(&a);
  return found;
}

const TunerRow* TunerTable::find_row(Collective collective, uint64_t bytes) const {
  for (const TunerRow& row : rows)
    if (row.collective == collective && bytes <= row.max_bytes) return &row;
  return nullptr;
}

const Choice* TunerTable::find(Collective collective, uint64_t bytes) const {
  const TunerRow* row = find_row(collective, bytes);
  return row ? &row->choice : nullptr;
}

TunerTable tune(Predictor& predictor, const TunerSpace& space, const std::vector<Collective>& collectives) {
  TunerTable table;
  for (Collective c : collectives) {
    auto rows = Tuning(predictor, space, c).rows();
    table.rows.insert(table.rows.end(), rows.begin(), rows.end());
  }
  return table;
}

}  // namespace twohop
