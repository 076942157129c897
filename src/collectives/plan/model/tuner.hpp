// The tuner: which algorithm, chunk size, number of channels and doorbell batch for which size? A table, worked out
// from the model when a communicator is made, or measured before and given.
//
// The fastest choice is taken: no algorithm is preferred, so that two-hop is never chosen where another is predicted to
// be faster, nor another where two-hop is; within the grain of an estimate the first of the table of algorithms is
// taken. A few sizes are looked at; where two neighbours differ, the border is searched for by bisection.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collectives/plan/model/predictor.hpp"

namespace twohop {

struct TunerRow {
  Collective collective = Collective::kAllReduce;
  uint64_t max_bytes = UINT64_MAX;  // of the buffer; the row's range begins where the row before ends
  Choice choice;
  bool operator==(const TunerRow&) const = default;
};

class TunerTable {
 public:
  /// Rows of a collective together, ascending; the last one of each reaches UINT64_MAX.
  std::vector<TunerRow> rows;

  /// Null where the table has no row for the collective.
  const Choice* find(Collective collective, uint64_t bytes) const;
  bool operator==(const TunerTable&) const = default;
};

/// What may be chosen.
struct TunerSpace {
  std::vector<const Algorithm*> algorithms;  // in the table's order; empty: all
  uint64_t max_chunk_bytes = 128 << 10;
  int max_channels = 1;
  uint32_t batch = 64;
  uint64_t steps = 1'000'000;  // walked for one collective, about: bounds the time that this takes
};
/// Those of the space that can do it.
std::vector<const Algorithm*> algorithms_of(const TunerSpace& space, const Cluster& cluster, Collective collective);

/// The same arguments give the same table, to the bit.
TunerTable tune(Predictor& predictor, const TunerSpace& space, const std::vector<Collective>& collectives);

/// The fastest choice for one size, and what all candidates cost, fastest first.
struct Candidate {
  Choice choice;
  Prediction prediction;
};
std::vector<Candidate> candidates(Predictor& predictor, const TunerSpace& space, Collective collective, uint64_t bytes,
                                  Predictor::Effort effort, bool try_cuts = true);

/// JSON text both ways. Refused: rows out of order, a collective without its last row, an unknown algorithm, a chunk,
/// channel or batch outside what is accepted; the message names row and value.
Result<TunerTable> parse_tuner_table(std::string_view json);
std::string format_tuner_table(const TunerTable& table);

}  // namespace twohop
