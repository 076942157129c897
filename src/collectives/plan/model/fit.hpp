// Fit: which model explains measured times best? Changes the members that a measurement of calls can tell, one after
// the other, as long as the predictions come closer. Members measured directly before are left as they are.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collectives/plan/memory_limits.hpp"
#include "collectives/plan/model/predictor.hpp"

namespace twohop {

/// One measured call.
struct MeasuredCall {
  std::shared_ptr<const Cluster> cluster;
  Choice choice;
  Collective collective = Collective::kAllReduce;
  uint64_t bytes = 0;
  double time_us = 0;
  double core_us = 0;  // that all ranks together had a core, waiting included; 0: unknown
};

/// Mean of |ln(predicted / measured)|: 0.1 is about 10 %. Work beyond the cores' time counts in the same way, so that
/// what a slow wire costs is not taken for copying.
double prediction_error(const NetworkModel& model, const MemorySettings& memory,
                        const std::vector<MeasuredCall>& calls);

struct FitOptions {
  std::vector<double NetworkModel::*> members;  // to be changed
  int passes = 12;                              // over all members, at most
  std::function<void(int pass, double error)> progress;
};

/// The best of what the starts, one at least, lead to: one member at a time gets no fit from slow copies to a slow
/// wire. The same arguments give the same model.
NetworkModel fit_model(const std::vector<NetworkModel>& starts, const MemorySettings& memory,
                       const std::vector<MeasuredCall>& calls, const FitOptions& options);

}  // namespace twohop
