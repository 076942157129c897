// See rails.hpp. What is said about the outcome is in rail_findings.cpp.
#include "topology/rails.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "topology/balance.hpp"
#include "topology/rail_findings.hpp"

namespace twohop::topology {
namespace {

class Chooser {
 public:
  Chooser(const Machine& m, const Paths& paths) : m_(m), paths_(paths), usable_(find_usable_ports(m)) {}

  RailChoice run() {
    choice_.verbs = usable_.verbs;
    choice_.rejected = usable_.rejected;
    choice_.sockets = usable_.sockets;
    choice_.warnings = usable_.warnings;
    choice_.assignment.resize(m_.gpus.size());
    order_ = by_index(m_);
    ports_of_gpu_.resize(m_.gpus.size());
    // Without GPUs, or with two kinds that cannot work together, every usable port serves host buffers.
    if (m_.gpus.empty() || vendors(m_).size() > 1) {
      number_rails(usable_.ports);
    } else {
      find_wishes();
      give_each_gpu_a_port();
      give_away_spare_ports();
      number_rails(used_ports());
      reject_unused();
    }
    explain();
    add_findings(m_, paths_, usable_, choice_);
    return std::move(choice_);
  }

 private:
  struct Wish {
    bool any = false;
    PathClass nearest = PathClass::kSys;
    std::vector<Choice> ports;  // positions in usable_.ports
  };

  const Path& path(size_t gpu, size_t position) const { return paths_.gpu_net[gpu][usable_.ports[position]]; }

  void find_wishes() {
    for (size_t g = 0; g < m_.gpus.size(); ++g) {
      Wish& wish = wishes_.emplace_back();
      for (size_t p = 0; p < usable_.ports.size(); ++p) {
        if (!path(g, p).known) continue;
        wish.nearest = wish.any ? std::min(wish.nearest, path(g, p).kind) : path(g, p).kind;
        wish.any = true;
      }
      for (size_t p = 0; p < usable_.ports.size() && wish.any; ++p)
        if (path(g, p).known && path(g, p).kind == wish.nearest)
          wish.ports.push_back({static_cast<int>(p), path(g, p).climb});
      anyone_near_ |= wish.any && is_near(wish.nearest);
    }
  }

  /// Positions of usable ports by card: both ports of a card share its PCI link.
  std::vector<int> cards() const {
    std::vector<int> card(usable_.ports.size(), kNone);
    int count = 0;
    for (size_t p = 0; p < card.size(); ++p) {
      if (card[p] != kNone) continue;
      card[p] = count++;
      for (size_t o = p + 1; o < card.size(); ++o)
        if (card[o] == kNone && on_one_card(p, o)) card[o] = card[p];
    }
    return card;
  }

  bool on_one_card(size_t a, size_t b) const {
    const auto x = static_cast<size_t>(usable_.ports[a]), y = static_cast<size_t>(usable_.ports[b]);
    if (m_.given) {
      const auto& table = m_.given->net_net;
      return x < table.size() && y < table[x].size() && table[x][y] == PathClass::kPix;
    }
    return same_card(m_, m_.nets[x], m_.nets[y]);
  }

  void give_each_gpu_a_port() {
    Spread problem;
    for (int g : order_) problem.choices.push_back(wishes_[g].ports);
    problem.card = cards();
    problem.load.assign(usable_.ports.size(), 0);
    const std::vector<int> taken = spread(problem);
    for (size_t i = 0; i < taken.size(); ++i)
      if (taken[i] >= 0) ports_of_gpu_[order_[i]].push_back(taken[i]);
  }

  /// More ports than GPUs in a tie: each port goes to the GPU that has fewest. A far port is not spare where others
  /// are near: it serves storage or the host.
  void give_away_spare_ports() {
    std::vector<bool> used(usable_.ports.size(), false);
    for (const auto& ports : ports_of_gpu_)
      for (int p : ports) used[p] = true;
    Spread problem;
    problem.choices = takers();
    for (size_t p = 0; p < used.size(); ++p)
      if (used[p]) problem.choices[p].clear();
    for (size_t i = 0; i < order_.size(); ++i) {
      problem.card.push_back(static_cast<int>(i));
      problem.load.push_back(static_cast<int>(ports_of_gpu_[order_[i]].size()));
    }
    const std::vector<int> taker = spread(problem);
    for (size_t p = 0; p < taker.size(); ++p)
      if (taker[p] >= 0) ports_of_gpu_[order_[taker[p]]].push_back(static_cast<int>(p));
    for (auto& ports : ports_of_gpu_) std::sort(ports.begin(), ports.end());
  }

  /// By position of a port: the GPUs (positions in order_) that have it nearest.
  std::vector<std::vector<Choice>> takers() const {
    std::vector<std::vector<Choice>> gpus(usable_.ports.size());
    for (size_t i = 0; i < order_.size(); ++i) {
      const Wish& wish = wishes_[order_[i]];
      if (anyone_near_ && !is_near(wish.nearest)) continue;
      for (const Choice& c : wish.ports) gpus[c.port].push_back({static_cast<int>(i), c.way});
    }
    return gpus;
  }

  /// Machine::nets indexes in the order of rail numbers: along the GPUs.
  std::vector<int> used_ports() const {
    std::vector<int> nets;
    for (int g : order_)
      for (int p : ports_of_gpu_[g])
        if (std::find(nets.begin(), nets.end(), usable_.ports[p]) == nets.end()) nets.push_back(usable_.ports[p]);
    return nets;
  }

  void number_rails(const std::vector<int>& nets) {
    for (int net : nets) {
      Rail rail;
      rail.number = static_cast<int>(choice_.rails.size());
      rail.net = net;
      for (int g : order_)
        for (int p : ports_of_gpu_[g])
          if (usable_.ports[p] == net) {
            rail.gpus.push_back(g);
            choice_.assignment[g].rails.push_back(rail.number);
          }
      choice_.rails.push_back(std::move(rail));
    }
    for (size_t g = 0; g < wishes_.size(); ++g) choice_.assignment[g].path = wishes_[g].nearest;
  }

  void reject_unused() {
    for (int net : usable_.ports) {
      if (std::any_of(choice_.rails.begin(), choice_.rails.end(), [net](const Rail& r) { return r.net == net; }))
        continue;
      PathClass best = PathClass::kSys;
      bool known = false;
      for (const auto& row : paths_.gpu_net)
        if (row[net].known) best = std::min(best, row[net].kind), known = true;
      choice_.rejected.push_back({net, !known ? "the source says nothing about its way to any GPU"
                                       : is_near(best)
                                           ? fmt::format("{} at best, and those GPUs have nearer ports", name_of(best))
                                           : "SYS to every GPU, while others are near: storage or management"});
    }
  }

  std::string names_of(const std::vector<int>& gpus) const {
    std::vector<std::string> names;
    for (int g : gpus) names.push_back(m_.gpus[g].name);
    return fmt::format("{}", fmt::join(names, ", "));
  }

  void explain() {
    for (Rail& rail : choice_.rails) {
      if (rail.gpus.empty()) {
        rail.reason = "usable; no GPU decides about it";
        continue;
      }
      const PathClass kind = paths_.gpu_net[rail.gpus[0]][rail.net].kind;
      const bool all_alike = std::all_of(rail.gpus.begin(), rail.gpus.end(),
                                         [&](int g) { return paths_.gpu_net[g][rail.net].kind == kind; });
      rail.reason = fmt::format("{} to {}", all_alike ? name_of(kind) : "nearest usable port", names_of(rail.gpus));
    }
    for (size_t g = 0; g < wishes_.size(); ++g) choice_.assignment[g].reason = why(g);
  }

  std::string why(size_t g) const {
    const Wish& wish = wishes_[g];
    if (!wish.any)
      return usable_.ports.empty() ? "no RDMA port is usable" : "the source says nothing about its ways to the ports";
    const char* kind = name_of(wish.nearest);
    const size_t has = ports_of_gpu_[g].size(), near = wish.ports.size();
    if (!is_near(wish.nearest))
      return near == 1 ? "SYS: the only port, nothing is near"
                       : fmt::format("SYS: nothing is near; {} of {} far ports", has, near);
    if (has == near) return fmt::format("{}: {}", kind, near == 1 ? "the nearest" : "all that are nearest");
    return fmt::format("{}: {} of {} equally near, shared evenly among GPUs", kind, has, near);
  }

  const Machine& m_;
  const Paths& paths_;
  const UsablePorts usable_;
  std::vector<Wish> wishes_;
  std::vector<int> order_;  // Machine::gpus indexes by their numbers, as tools count them
  bool anyone_near_ = false;
  std::vector<std::vector<int>> ports_of_gpu_;  // positions in usable_.ports
  RailChoice choice_;
};

}  // namespace

std::vector<int> by_index(const Machine& m) {
  std::vector<int> order(m.gpus.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return m.gpus[a].index < m.gpus[b].index; });
  return order;
}

RailChoice choose_rails(const Machine& machine, const Paths& paths) {
  return Chooser(machine, paths).run();
}

}  // namespace twohop::topology
