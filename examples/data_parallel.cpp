// Trains a small network data-parallel: each rank takes its part of every batch, twohop averages the gradients.
//
//   scripts/launch 4 --ranks-per-node 2 -- ./data_parallel --check
//
// --check trains the same network on whole batches in this process too, and fails where the losses part.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <twohop/twohop.hpp>
#include <vector>

namespace {

constexpr size_t kInputs = 8, kHidden = 32, kSamples = 1024, kBatch = 128;
constexpr int kEpochs = 10;
constexpr float kLearningRate = 0.1F;

struct Dataset {
  std::vector<float> x, y;  // kSamples x kInputs; kSamples
};

/// A smooth function of random points, the same on every rank.
Dataset synthetic_data() {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  Dataset data;
  for (size_t s = 0; s < kSamples; ++s) {
    float sum = 0;
    for (size_t i = 0; i < kInputs; ++i) {
      data.x.push_back(uniform(random));
      sum += data.x.back() * (i % 2 == 0 ? 1.0F : -0.5F);
    }
    data.y.push_back(std::sin(sum));
  }
  return data;
}

/// y = w2 . tanh(W1 x + b1) + b2, with all parameters in one vector: what frameworks call a flat bucket.
class Network {
 public:
  static constexpr size_t kParameters = kHidden * kInputs + kHidden + kHidden + 1;

  Network() : parameters_(kParameters) {
    std::mt19937 random(2);
    std::normal_distribution<float> normal(0.0F, 0.4F);
    for (float& p : parameters_) p = normal(random);
  }

  /// Adds the gradient of sum((f(x) - y)^2) over samples [begin, end) to `gradient`; returns that sum.
  double accumulate(const Dataset& data, size_t begin, size_t end, std::vector<float>& gradient) const {
    double loss = 0;
    for (size_t s = begin; s < end; ++s) loss += one_sample(&data.x[s * kInputs], data.y[s], gradient.data());
    return loss;
  }

  void step(const std::vector<float>& gradient) {
    for (size_t i = 0; i < kParameters; ++i) parameters_[i] -= kLearningRate * gradient[i];
  }

 private:
  static constexpr size_t kB1 = kHidden * kInputs, kW2 = kB1 + kHidden, kB2 = kW2 + kHidden;

  double one_sample(const float* x, float y, float* gradient) const {
    const float* p = parameters_.data();
    float hidden[kHidden];
    float out = p[kB2];
    for (size_t h = 0; h < kHidden; ++h) {
      float sum = p[kB1 + h];
      for (size_t i = 0; i < kInputs; ++i) sum += p[h * kInputs + i] * x[i];
      hidden[h] = std::tanh(sum);
      out += p[kW2 + h] * hidden[h];
    }
    float error = out - y;
    gradient[kB2] += 2 * error;
    for (size_t h = 0; h < kHidden; ++h) {
      gradient[kW2 + h] += 2 * error * hidden[h];
      float inner = 2 * error * p[kW2 + h] * (1 - hidden[h] * hidden[h]);
      gradient[kB1 + h] += inner;
      for (size_t i = 0; i < kInputs; ++i) gradient[h * kInputs + i] += inner * x[i];
    }
    return static_cast<double>(error) * error;
  }

  std::vector<float> parameters_;
};

/// One pass over the data; returns the mean loss. `comm` null: alone, on whole batches.
double train_epoch(Network& network, const Dataset& data, twohop::Comm* comm) {
  size_t nranks = comm ? static_cast<size_t>(comm->size()) : 1, rank = comm ? static_cast<size_t>(comm->rank()) : 0;
  double loss = 0;
  for (size_t batch = 0; batch < kSamples; batch += kBatch) {
    std::vector<float> gradient(Network::kParameters, 0.0F);
    // Parts may differ by a sample; scaling by the mean part makes the average over ranks the average over samples.
    loss += network.accumulate(data, batch + kBatch * rank / nranks, batch + kBatch * (rank + 1) / nranks, gradient);
    float scale = static_cast<float>(nranks) / kBatch;
    for (float& g : gradient) g *= scale;
    if (comm) comm->all_reduce(gradient, twohopAvg);
    network.step(gradient);
  }
  if (comm) comm->all_reduce(std::span(&loss, 1), twohopSum);
  return loss / kSamples;
}

bool close(double a, double b) {
  return std::abs(a - b) <= 1e-4 * std::max(1.0, std::abs(b)) && std::isfinite(a);
}

int run(bool check) {
  twohop::Comm comm = twohop::Comm::from_env();
  Dataset data = synthetic_data();
  Network network, alone;
  bool right = true;
  double first = 0, last = 0;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    last = train_epoch(network, data, &comm);
    if (epoch == 0) first = last;
    double reference = check ? train_epoch(alone, data, nullptr) : last;
    right = right && close(last, reference);
    if (comm.rank() != 0) continue;
    std::printf("epoch %2d  loss %.6f", epoch, last);
    if (check) std::printf("  alone %.6f", reference);
    std::printf("\n");
  }
  if (check && !(right && last < first)) {
    std::fprintf(stderr, "data_parallel: rank %d: the loss does not follow that of one process\n", comm.rank());
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  bool check = argc == 2 && std::strcmp(argv[1], "--check") == 0;
  if (argc > 1 && !check) {
    std::fprintf(stderr, "usage: data_parallel [--check]\n");
    return 2;
  }
  try {
    return run(check);
  } catch (const twohop::Exception& e) {
    std::fprintf(stderr, "data_parallel: %s\n", e.what());
    return 1;
  }
}
