// See balance.hpp. Successive shortest paths: each taker in turn enters by the cheapest way, which may move earlier
// ones.
#include "topology/balance.hpp"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>

namespace twohop::topology {
namespace {

/// More choices than this (16 GPUs times 1000 ports) are not worth an exact answer.
constexpr size_t kMaxExactChoices = 16'000;

/// Compared from left to right.
struct Cost {
  int64_t load = 0, card = 0, way = 0, order = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 of the default comparison for a pointer
  auto operator<=>(const Cost&) const = default;
  Cost operator+(const Cost& o) const { return {load + o.load, card + o.card, way + o.way, order + o.order}; }
  Cost operator-() const { return {-load, -card, -way, -order}; }
};

class Flow {
 public:
  explicit Flow(const Spread& p)
      : p_(p), load_(p.load), taken_(p.choices.size(), -1), takers_(p.choices.size()), ports_(p.load.size()) {
    const int cards = p.card.empty() ? 0 : *std::max_element(p.card.begin(), p.card.end()) + 1;
    card_load_.assign(static_cast<size_t>(cards), 0);
    for (size_t i = 0; i < ports_; ++i) card_load_[p.card[i]] += load_[i];
  }

  std::vector<int> run() {
    size_t choices = 0;
    for (const auto& c : p_.choices) choices += c.size();
    const bool exact = choices <= kMaxExactChoices;
    for (size_t t = 0; t < takers_ && exact; ++t) set_order(t);
    for (size_t t = 0; t < takers_; ++t) {
      if (p_.choices[t].empty()) continue;
      if (exact)
        enter(t);
      else
        take_least_loaded(t);
    }
    return taken_;
  }

 private:
  // Nodes of the residual graph: takers, ports, cards, sink.
  size_t port_node(int port) const { return takers_ + static_cast<size_t>(port); }
  size_t card_node(int card) const { return takers_ + ports_ + static_cast<size_t>(card); }
  size_t sink() const { return takers_ + ports_ + card_load_.size(); }

  /// Takers with the same choices sit at them in order: the i-th of n at position i * ports / n.
  void set_order(size_t t) {
    const auto same = [&](size_t o) {
      const auto &a = p_.choices[t], &b = p_.choices[o];
      return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                        [](const Choice& x, const Choice& y) { return x.port == y.port; });
    };
    size_t before = 0, all = 0;
    for (size_t o = 0; o < takers_; ++o)
      if (same(o)) before += o < t, ++all;
    ideal_.push_back(before * p_.choices[t].size() / all);
  }

  Cost cost(size_t t, size_t choice) const {
    const auto off = static_cast<int64_t>(choice) - static_cast<int64_t>(ideal_[t]);
    return {.way = p_.choices[t][choice].way, .order = off * off};
  }

  Cost cost_of_taken(size_t t) const {
    const auto& choices = p_.choices[t];
    const auto it = std::find_if(choices.begin(), choices.end(), [&](const Choice& c) { return c.port == taken_[t]; });
    return cost(t, static_cast<size_t>(it - choices.begin()));
  }

  struct Step {
    size_t from = 0;
    bool reached = false;
    Cost cost;
  };

  bool relax(size_t from, size_t to, const Cost& step) {
    const Cost total = steps_[from].cost + step;
    if (steps_[to].reached && steps_[to].cost <= total) return false;
    steps_[to] = {from, true, total};
    return true;
  }

  bool relax_taker(size_t t) {
    bool changed = false;
    for (size_t i = 0; i < p_.choices[t].size(); ++i)
      if (const int port = p_.choices[t][i].port; port != taken_[t]) changed |= relax(t, port_node(port), cost(t, i));
    return changed;
  }

  bool relax_port(int port) {
    const size_t node = port_node(port);
    bool changed = relax(node, card_node(p_.card[port]), {.load = 2 * load_[port] + 1});
    for (size_t t = 0; t < takers_; ++t)
      if (taken_[t] == port) changed |= relax(node, t, -cost_of_taken(t));
    return changed;
  }

  bool relax_card(int card) {
    const size_t node = card_node(card);
    bool changed = relax(node, sink(), {.card = 2 * card_load_[card] + 1});
    for (size_t i = 0; i < ports_; ++i)
      if (p_.card[i] == card && load_[i] > p_.load[i])
        changed |= relax(node, port_node(static_cast<int>(i)), {.load = -(2 * load_[i] - 1)});
    return changed;
  }

  void enter(size_t taker) {
    steps_.assign(sink() + 1, {});
    steps_[taker].reached = true;
    // Bellman and Ford; the residual graph has no negative cycle, the bound is for the reader.
    for (size_t round = 0; round < steps_.size(); ++round) {
      bool changed = false;
      for (size_t node = 0; node < sink(); ++node) {
        if (!steps_[node].reached) continue;
        if (node < takers_)
          changed |= relax_taker(node);
        else if (node < takers_ + ports_)
          changed |= relax_port(static_cast<int>(node - takers_));
        else
          changed |= relax_card(static_cast<int>(node - takers_ - ports_));
      }
      if (!changed) break;
    }
    apply(taker);
  }

  /// Walks the way back from the sink and makes the moves on it.
  void apply(size_t taker) {
    for (size_t node = sink(); node != taker; node = steps_[node].from) {
      const size_t from = steps_[node].from;
      const bool at_port = node >= takers_ && node < takers_ + ports_;
      if (from < takers_ && at_port) taken_[from] = static_cast<int>(node - takers_);
    }
    load_ = p_.load;
    std::fill(card_load_.begin(), card_load_.end(), 0);
    for (int port : taken_)
      if (port >= 0) ++load_[port];
    for (size_t i = 0; i < ports_; ++i) card_load_[p_.card[i]] += load_[i];
  }

  void take_least_loaded(size_t t) {
    const auto& choices = p_.choices[t];
    const auto best = std::min_element(choices.begin(), choices.end(), [&](const Choice& a, const Choice& b) {
      return load_[a.port] != load_[b.port] ? load_[a.port] < load_[b.port] : a.way < b.way;
    });
    taken_[t] = best->port;
    ++load_[best->port];
  }

  const Spread& p_;
  std::vector<int> load_, card_load_, taken_;
  std::vector<size_t> ideal_;
  size_t takers_, ports_;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<int> spread(const Spread& problem) {
  return Flow(problem).run();
}

}  // namespace twohop::topology
