// See rank_rails.hpp.
#include "topology/rank_rails.hpp"

#include <algorithm>

#include "topology/balance.hpp"

namespace twohop::topology {
namespace {

int numa_of(const Machine& m, int pci, int own) {
  for (; own == kNone && pci != kNone; pci = m.pci[pci].parent) own = m.pci[pci].numa;
  return own;
}

class Placer {
 public:
  Placer(const Machine& m, const RailChoice& choice, std::span<const int> cpu_numas)
      : m_(m), choice_(choice), cpu_numas_(cpu_numas), places_(cpu_numas.size()) {}

  std::vector<RankPlace> run() {
    if (places_.empty()) return {};
    give_gpus();
    if (own_rails() == 0) give_rails_by_numa();
    for (size_t rank = 0; rank < places_.size(); ++rank) complete(rank);
    return std::move(places_);
  }

 private:
  void give_gpus() {
    const std::vector<int> order = by_index(m_);
    for (size_t i = 0; i < places_.size() && !order.empty(); ++i) places_[i].gpu = order[i % order.size()];
    for (size_t i = 0; i < std::max(order.size(), places_.size()) && !order.empty(); ++i)
      for (int rail : choice_.assignment[order[i % order.size()]].rails) add(places_[i % places_.size()], rail);
  }

  static void add(RankPlace& place, int rail) {
    if (std::find(place.rails.begin(), place.rails.end(), rail) == place.rails.end()) place.rails.push_back(rail);
  }

  size_t own_rails() const {
    size_t count = 0;
    for (const RankPlace& p : places_) count += p.rails.size();
    return count;
  }

  /// No GPU decides: ranks take rails of the NUMA node of their CPUs, evenly; then rails that are left take ranks.
  void give_rails_by_numa() {
    if (choice_.rails.empty()) return;
    const std::vector<std::vector<Choice>> wishes = near_rails();
    const std::vector<int> taken =
        spread({wishes, numbers(choice_.rails.size()), std::vector<int>(choice_.rails.size(), 0)});
    Spread rest;
    rest.choices.resize(choice_.rails.size());
    for (size_t rank = 0; rank < places_.size(); ++rank) {
      places_[rank].rails = {taken[rank]};
      for (const Choice& c : wishes[rank])
        if (std::find(taken.begin(), taken.end(), c.port) == taken.end())
          rest.choices[c.port].push_back({static_cast<int>(rank), 0});
    }
    rest.card = numbers(places_.size());
    rest.load.assign(places_.size(), 1);
    const std::vector<int> takers = spread(rest);
    for (size_t rail = 0; rail < takers.size(); ++rail)
      if (takers[rail] >= 0) add(places_[takers[rail]], static_cast<int>(rail));
  }

  std::vector<std::vector<Choice>> near_rails() const {
    std::vector<std::vector<Choice>> wishes;
    for (int numa : cpu_numas_) {
      std::vector<Choice> near, all;
      for (const Rail& rail : choice_.rails) {
        all.push_back({rail.number, 0});
        const NetPort& port = m_.nets[rail.net];
        if (numa != kNone && numa_of(m_, port.pci, port.numa) == numa) near.push_back({rail.number, 0});
      }
      wishes.push_back(near.empty() ? std::move(all) : std::move(near));
    }
    return wishes;
  }

  static std::vector<int> numbers(size_t count) {
    std::vector<int> list;
    for (size_t i = 0; i < count; ++i) list.push_back(static_cast<int>(i));
    return list;
  }

  void complete(size_t rank) {
    RankPlace& place = places_[rank];
    std::sort(place.rails.begin(), place.rails.end());
    place.own = place.rails.size();
    for (const Rail& rail : choice_.rails) add(place, rail.number);
    if (place.own == 0) place.own = place.rails.size();
    if (place.gpu != kNone) place.numa = numa_of(m_, m_.gpus[place.gpu].pci, m_.gpus[place.gpu].numa);
    if (place.numa == kNone && !place.rails.empty()) {
      const NetPort& port = m_.nets[choice_.rails[place.rails[0]].net];
      place.numa = numa_of(m_, port.pci, port.numa);
    }
  }

  const Machine& m_;
  const RailChoice& choice_;
  std::span<const int> cpu_numas_;
  std::vector<RankPlace> places_;
};

}  // namespace

std::vector<RankPlace> place_ranks(const Machine& machine, const RailChoice& choice, std::span<const int> cpu_numas) {
  return Placer(machine, choice, cpu_numas).run();
}

}  // namespace twohop::topology
