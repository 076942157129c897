// Who gets which port, when several are equally near? Takers are spread so that every port is loaded alike, then every
// card, then over the shorter ways, then in order. Exact (a minimum-cost flow), deterministic, and knows no hardware.
#pragma once

#include <cstddef>
#include <vector>

namespace twohop::topology {

struct Choice {
  int port = 0;  // index
  int way = 0;   // length; only compared
};

struct Spread {
  std::vector<std::vector<Choice>> choices;  // by taker; may be empty
  std::vector<int> card;                     // by port: index of its card
  std::vector<int> load;                     // by port: takers it has already
};

/// The port of each taker, -1 for one without choices. Beyond a size that no machine has, each taker in turn takes the
/// least loaded port instead.
std::vector<int> spread(const Spread& problem);

}  // namespace twohop::topology
