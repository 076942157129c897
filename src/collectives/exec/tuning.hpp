// Tuning: which algorithm, chunk, channels and batch does each call of a communicator get? Rank 0 works the table out
// (or reads it) when the communicator is made and gives its text to the others, so that all have the same to the bit.
#pragma once

#include <string>

#include "base/options.hpp"
#include "collectives/plan/layout.hpp"
#include "collectives/plan/model/tuner.hpp"
#include "collectives/plan/selection.hpp"

namespace twohop {

/// What the table is made for.
struct TuningPlace {
  const Cluster* cluster = nullptr;
  LayoutLimits limits;
  std::string_view net;        // of the endpoint: which built-in model is meant
  int64_t rails = 1;           // of a node
  int64_t machines = 1;        // that the nodes are on
  int64_t cores = 1;           // of this machine
  double rail_gbit_per_s = 0;  // 0: not known, as the built-in model has it
};

/// On rank 0: the table's text; empty where the selection leaves no choice, and where the user wants no model. Errors
/// name the file and what is wrong with it.
Result<std::string> make_tuning(const Selection& selection, const Options& options, const TuningPlace& place);

class Tuning {
 public:
  /// `text`: what make_tuning gave on rank 0.
  static Result<Tuning> create(const Selection& selection, const std::string& text, const Cluster& cluster,
                               const LayoutLimits& limits, uint32_t batch);

  /// What the table says, as far as the selection allows it; else what the selection chooses, in the largest chunks and
  /// on all channels.
  Choice choose(Collective collective, uint64_t buffer_bytes) const;
  /// All algorithms that choose() can return, in the order of the table of algorithms.
  std::vector<const Algorithm*> reachable(const Cluster& cluster) const;
  const TunerTable& table() const { return table_; }

 private:
  Selection selection_;
  struct Selected {
    const Algorithm *little = nullptr, *large = nullptr;
  };
  Selected selected_[4];  // by collective: the selection's own choices, kept since it compares names
  uint64_t little_bytes_ = 0;
  Choice largest_;
  TunerTable table_;
  std::vector<bool> row_allowed_;  // of the table
};

}  // namespace twohop
