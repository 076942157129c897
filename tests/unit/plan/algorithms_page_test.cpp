// Does docs/algorithms.md say of each algorithm what its schedules do? The formulas of its table are read and
// evaluated, and held against the programs: collectives, steps on the network, bytes out of a node.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "shapes.hpp"

namespace twohop {
namespace {

// ---- Formulas ----

using Variables = std::map<std::string, double>;

/// Sums and products of numbers, N, n, G, S, floor(), ceil(), log2; a factor beside another multiplies.
class Formula {
 public:
  Formula(std::string text, const Variables& variables) : text_(std::move(text)), variables_(variables) {}
  double value() {
    const double v = sum();
    if (at_ != text_.size()) ADD_FAILURE() << "not a formula from character " << at_ << " on: " << text_;
    return v;
  }

 private:
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  double sum() {
    double v = product();
    for (;;) {
      if (take('+'))
        v += product();
      else if (take('-'))
        v -= product();
      else
        return v;
    }
  }
  double product() {
    double v = factor();
    for (;;) {
      if (take('/'))
        v /= factor();
      else if (std::isalnum(peek()) || peek() == '(')
        v *= factor();
      else
        return v;
    }
  }
  double factor() {
    if (take('(')) {
      const double v = sum();
      EXPECT_TRUE(take(')')) << text_;
      return v;
    }
    if (std::isdigit(peek())) {
      size_t used = 0;
      const double v = std::stod(text_.substr(at_), &used);
      at_ += used;
      return v;
    }
    std::string name;
    while (at_ < text_.size() && std::isalnum(text_[at_])) name += text_[at_++];
    if (name == "log2") return std::log2(factor());
    if (name == "floor") return std::floor(factor() + 1e-9);
    if (name == "ceil") return std::ceil(factor() - 1e-9);
    const auto it = variables_.find(name);
    if (it != variables_.end()) return it->second;
    ADD_FAILURE() << "unknown \"" << name << "\" in " << text_;
    at_ = text_.size();
    return 0;
  }

  std::string text_;
  const Variables& variables_;
  size_t at_ = 0;
};

/// A cell of the page: a formula, or what it is at most.
struct Claim {
  bool at_most = false;
  std::string formula;
  explicit Claim(const std::string& cell) {
    const std::string up_to = "up to ";
    at_most = cell.starts_with(up_to);
    formula = at_most ? cell.substr(up_to.size()) : cell;
  }
};

// ---- The page ----

struct Row {
  std::string collectives, steps, bytes;
};

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream text(line.substr(1));
  for (std::string cell; std::getline(text, cell, '|');) {
    const size_t from = cell.find_first_not_of(' '), to = cell.find_last_not_of(' ');
    cells.push_back(from == std::string::npos ? "" : cell.substr(from, to - from + 1));
  }
  return cells;
}

/// By name of the algorithm.
std::map<std::string, Row> rows_of_the_page() {
  std::ifstream page(TWOHOP_SOURCE_DIR "/docs/algorithms.md");
  std::map<std::string, Row> rows;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| name | collectives | network steps | bytes out of a node |")) inside = true;
    if (!inside || !line.starts_with("| `")) {
      if (!rows.empty()) break;
      continue;
    }
    const auto cells = cells_of(line);
    if (cells.size() < 4) {
      ADD_FAILURE() << line;
      break;
    }
    const std::string name = cells[0].substr(1, cells[0].size() - 2);
    EXPECT_TRUE(rows.emplace(name, Row{cells[1], cells[2], cells[3]}).second) << name << " twice";
  }
  return rows;
}

// ---- What the programs do ----

/// How many puts follow each other on the longest way through one round. Runs the programs of all ranks; every lane and
/// event remembers how many puts it comes after.
class Steps {
 public:
  Steps(const Algorithm& algorithm, const Cluster& cluster, Collective collective) : lanes_(cluster.nranks()) {
    // So many slots that no put waits for a credit: those are not part of the way.
    const Request request{&cluster, collective, 0, {1, 4, 4096}};
    for (int r = 0; r < cluster.nranks(); ++r) {
      programs_.push_back(algorithm.program(request, r));
      lanes_[static_cast<size_t>(r)].resize(programs_.back().lanes.size());
    }
  }
  int count() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < lanes_.size(); ++r)
        for (size_t l = 0; l < lanes_[r].size(); ++l)
          while (lanes_[r][l].pc < programs_[r].lanes[l].size() && step(static_cast<int>(r), l)) moved = true;
    }
    int most = 0;
    for (size_t r = 0; r < lanes_.size(); ++r)
      for (size_t l = 0; l < lanes_[r].size(); ++l) {
        EXPECT_EQ(lanes_[r][l].pc, programs_[r].lanes[l].size()) << "stuck: rank " << r << " lane " << l;
        most = std::max(most, lanes_[r][l].after);
      }
    return most;
  }

 private:
  struct Lane {
    size_t pc = 0;
    int after = 0;
    std::vector<int> signals;
  };
  /// Waits for the `target`-th of `events` and comes after it.
  static bool follow(Lane& lane, const std::vector<int>& events, int64_t target) {
    if (target <= 0) return true;
    if (static_cast<int64_t>(events.size()) < target) return false;
    lane.after = std::max(lane.after, events[static_cast<size_t>(target) - 1]);
    return true;
  }
  bool step(int r, size_t l) {
    Lane& lane = lanes_[static_cast<size_t>(r)][l];
    const Program& p = programs_[static_cast<size_t>(r)];
    const Step& s = p.lanes[l][lane.pc];
    bool done = true;
    switch (s.kind) {
      case StepKind::kPut:
        arrivals_[{r, p.out[s.link].peer, p.out[s.link].tag}].push_back(lane.after + 1);
        break;
      case StepKind::kArrive:
        done = follow(lane, arrivals_[{p.in[s.link].peer, r, p.in[s.link].tag}], s.target.at(0));
        break;
      case StepKind::kSignal:
        lane.signals.push_back(lane.after);
        break;
      case StepKind::kWait:
        done = follow(lane, lanes_[static_cast<size_t>(s.rank)][s.lane].signals, s.target.at(0));
        break;
      default:
        break;
    }
    lane.pc += done;
    return done;
  }

  std::vector<Program> programs_;
  std::vector<std::vector<Lane>> lanes_;                            // by rank
  std::map<std::tuple<int, int, int>, std::vector<int>> arrivals_;  // by sender, receiver, tag
};

struct Shape {
  int nodes, group;
  Cluster cluster() const { return cluster_of(std::vector<int>(static_cast<size_t>(nodes), group)); }
  Variables variables() const { return {{"N", nodes}, {"G", group}, {"n", nodes * group}, {"S", 1}}; }
  std::string text() const { return std::to_string(nodes) + " x " + std::to_string(group); }
};

std::vector<Shape> shapes() {
  std::vector<Shape> list;
  for (int nodes : {2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17})
    for (int group : {1, 2, 3, 4}) list.push_back({nodes, group});
  return list;
}

/// Holds a claim against what is so on all shapes; one of "up to" must be reached on some.
template <class Measure>
void hold(const Claim& claim, const std::string& name, Measure measure) {
  bool reached = false;
  for (const Shape& shape : shapes()) {
    const double said = Formula(claim.formula, shape.variables()).value(), is = measure(shape);
    reached |= std::abs(said - is) < 1e-9;
    if (claim.at_most)
      EXPECT_LE(is, said + 1e-9) << name << " on " << shape.text();
    else
      EXPECT_NEAR(is, said, 1e-9) << name << " on " << shape.text();
  }
  EXPECT_TRUE(reached) << name << ": never as many as \"" << claim.formula << "\"";
}

TEST(AlgorithmsPage, HasEveryAlgorithmOnceWithTheCollectivesThatItCan) {
  const auto rows = rows_of_the_page();
  EXPECT_EQ(rows.size(), algorithms().size());
  const Cluster cluster = cluster_of({2, 2, 2});
  for (const Algorithm& a : algorithms()) {
    const auto row = rows.find(std::string(a.name));
    ASSERT_NE(row, rows.end()) << a.name;
    std::vector<bool> can;
    for (Collective c : kCollectives) can.push_back(a.supports(cluster, c));
    const std::string said = can == std::vector{true, false, false, false}  ? "all-reduce"
                             : can == std::vector{true, true, false, false} ? "what sums"
                                                                            : "all";
    EXPECT_EQ(row->second.collectives, said) << a.name;
  }
}

TEST(AlgorithmsPage, SaysHowManyStepsFollowEachOtherOnTheNetwork) {
  for (const auto& [name, row] : rows_of_the_page()) {
    const Algorithm* a = find_algorithm(name);
    ASSERT_NE(a, nullptr) << name;
    hold(Claim(row.steps), name,
         [&](const Shape& s) { return Steps(*a, s.cluster(), Collective::kAllReduce).count(); });
  }
}

TEST(AlgorithmsPage, SaysHowManyBytesLeaveTheBusiestNode) {
  for (const auto& [name, row] : rows_of_the_page()) {
    if (name == "flat-tree") continue;  // no formula: the page says so
    const Algorithm* a = find_algorithm(name);
    ASSERT_NE(a, nullptr) << name;
    hold(Claim(row.bytes), name, [&](const Shape& s) {
      const Cluster cluster = s.cluster();
      return busiest_bytes_out_per_byte(*a, {&cluster, Collective::kAllReduce, 0, {}});
    });
  }
}

/// The other collectives, of which the text speaks.
TEST(AlgorithmsPage, IsRightThatReduceScatterAndAllGatherTakeHalfOfTheSteps) {
  for (const char* name : {"two-hop", "two-hop-log"})
    for (const Shape& s : shapes()) {
      const auto count = [&](Collective c) { return Steps(*find_algorithm(name), s.cluster(), c).count(); };
      EXPECT_EQ(2 * count(Collective::kReduceScatter), count(Collective::kAllReduce)) << name << " on " << s.text();
      EXPECT_EQ(2 * count(Collective::kAllGather), count(Collective::kAllReduce)) << name << " on " << s.text();
    }
}

TEST(AlgorithmsPage, IsReadAsItIsMeant) {
  const Variables v{{"N", 6}, {"n", 12}, {"G", 2}, {"S", 1}};
  EXPECT_DOUBLE_EQ(Formula("2(N-1)/N S", v).value(), 10.0 / 6);
  EXPECT_DOUBLE_EQ(Formula("G 2(n-1)/n S", v).value(), 44.0 / 12);
  EXPECT_DOUBLE_EQ(Formula("2 ceil(log2 N) - floor(log2 N)", v).value(), 4);
}

}  // namespace
}  // namespace twohop
