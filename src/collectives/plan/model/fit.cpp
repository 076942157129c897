// See fit.hpp: coordinate descent in the logarithm of each member.
#include "collectives/plan/model/fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace twohop {
namespace {

constexpr Predictor::Effort kEffort{4'000, false, 0};
constexpr double kFirstFactor = 2, kLeastFactor = 1.05, kWorthIt = 1e-4;
constexpr double kLeastValue = 0.01;  // a member that is 0 starts here

const ModelField& field_of(double NetworkModel::*member) {
  const auto& fields = model_fields();
  return *std::find_if(fields.begin(), fields.end(), [&](const ModelField& f) { return f.real == member; });
}

/// Of all ranks of the cluster.
double busy_us(const Prediction& p, int nranks) {
  double sum = 0;
  for (const RankUse& rank : p.run.ranks) sum += rank.total_busy_us();
  return sum * p.scale * nranks / static_cast<double>(p.run.ranks.size());
}

class Fit {
 public:
  Fit(NetworkModel start, const MemorySettings& memory, const std::vector<MeasuredCall>& calls,
      const FitOptions& options)
      : model_(std::move(start)), memory_(memory), calls_(calls), options_(options), error_(error_of(model_)) {}

  NetworkModel run() {
    double factor = kFirstFactor;
    for (int pass = 0; pass < options_.passes && factor > kLeastFactor; ++pass) {
      const double before = error_;
      for (double NetworkModel::*member : options_.members) improve(member, factor);
      if (options_.progress) options_.progress(pass, error_);
      if (before - error_ < 0.02 * before) factor = std::sqrt(factor);
    }
    return model_;
  }
  double error() const { return error_; }

 private:
  double error_of(const NetworkModel& m) const { return prediction_error(m, memory_, calls_); }
  void improve(double NetworkModel::*member, double factor) {
    for (double f : {factor, 1 / factor}) {
      bool better = false;
      while (try_value(member, std::max(model_.*member, kLeastValue) * f)) better = true;
      if (better) return;
    }
  }
  bool try_value(double NetworkModel::*member, double value) {
    const ModelField& field = field_of(member);
    if (value < field.min || value > field.max) return false;
    NetworkModel other = model_;
    other.*member = value;
    const double error = error_of(other);
    if (error > error_ - kWorthIt) return false;
    model_ = std::move(other);
    error_ = error;
    return true;
  }

  NetworkModel model_;
  const MemorySettings& memory_;
  const std::vector<MeasuredCall>& calls_;
  const FitOptions& options_;
  double error_;
};

}  // namespace

double prediction_error(const NetworkModel& model, const MemorySettings& memory,
                        const std::vector<MeasuredCall>& calls) {
  std::vector<std::unique_ptr<Predictor>> predictors;
  double sum = 0;
  for (const MeasuredCall& c : calls) {
    auto same = std::find_if(predictors.begin(), predictors.end(),
                             [&](const auto& p) { return &p->cluster() == c.cluster.get(); });
    if (same == predictors.end())
      same = predictors.insert(same, std::make_unique<Predictor>(c.cluster, model, memory_limits(*c.cluster, memory)));
    const Prediction predicted = (*same)->predict(c.choice, c.collective, c.bytes, kEffort);
    sum += std::abs(std::log(std::max(predicted.time_us, 1e-3) / std::max(c.time_us, 1e-3)));
    if (c.core_us > 0) sum += std::max(0.0, std::log(busy_us(predicted, c.cluster->nranks()) / c.core_us));
  }
  return calls.empty() ? 0 : sum / static_cast<double>(calls.size());
}

NetworkModel fit_model(const std::vector<NetworkModel>& starts, const MemorySettings& memory,
                       const std::vector<MeasuredCall>& calls, const FitOptions& options) {
  NetworkModel best;
  double least = std::numeric_limits<double>::infinity();
  for (const NetworkModel& start : starts) {
    Fit fit(start, memory, calls, options);
    NetworkModel found = fit.run();
    if (fit.error() < least) best = std::move(found), least = fit.error();
  }
  return best;
}

}  // namespace twohop
