// calibrate: measures a network model on the machines at hand and writes it as JSON, for TWOHOP_MODEL_FILE and
// `twohop plan --model`. Copies, then all-reduces of a few sizes inside the node and between nodes; what cannot be
// measured alone is fitted until the predictions agree with the times.
//
// Started as one process it starts its ranks itself, as virtual nodes on this machine. Under a launcher that sets RANK
// it measures the cluster that it was started on. Exit code: 0 all right, 2 bad arguments, 3 something failed.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/options.hpp"
#include "collectives/plan/model/fit.hpp"
#include "launcher.hpp"
#include "own_ranks.hpp"

namespace twohop::perf {
namespace {

using Clock = std::chrono::steady_clock;

struct CalibrateOptions {
  std::string output = "model.json", base = "auto", name;
  int ranks = 4, ranks_per_node = 0;
  double seconds = 0.15;  // of each size
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void say(const Launcher& launcher, const std::string& text) {
  if (launcher.rank() == 0) fmt::print(stderr, "calibrate: {}\n", text);
}

void require(const Launcher& launcher, twohopResult_t result, const char* call, twohopComm_t comm) {
  if (result == twohopSuccess) return;
  fmt::print(stderr, "calibrate: rank {}: {}: {}: {}\n", launcher.rank(), call, twohopGetErrorString(result),
             twohopGetLastError(comm));
  launcher.leave(3);
}

double copy_rate(size_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes, 2);
  double best = 0;
  for (int i = 0; i < 7; ++i) {
    const size_t times = std::max<size_t>(1, (32 << 20) / bytes);
    const auto begin = Clock::now();
    for (size_t t = 0; t < times; ++t) {
      std::memcpy(to.data(), from.data(), bytes);
      asm volatile("" : : "r"(to.data()) : "memory");
    }
    best = std::max(best, static_cast<double>(bytes * times) / seconds_since(begin) / 1e9);
  }
  return best;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Of this process, its threads and what the kernel did for it.
double core_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](timeval t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

/// As many on all networks, so that what is measured is what is predicted: the networks' defaults differ.
int channels_of(const Options& library) {
  return library.nchannels > 0 ? static_cast<int>(library.nchannels) : 2;
}

/// All-reduces of one cut of the ranks into nodes.
class Bench {
 public:
  Bench(const Launcher& launcher, const char* algo, int ranks_per_node, int channels) : launcher_(launcher) {
    twohopConfig_t config = TWOHOP_CONFIG_INITIALIZER;
    config.algo = algo;
    config.ranks_per_node = ranks_per_node;
    config.nchannels = channels;
    require(launcher, launcher.make_communicator(&comm_, &config), "making a communicator", nullptr);
    twohopShape_t shape{};
    require(launcher, twohopCommShape(comm_, &shape), "twohopCommShape", comm_);
    nodes_ = shape.nnodes;
    std::vector<int> node(static_cast<size_t>(launcher.size()));
    require(launcher, twohopAllGather(&shape.node, node.data(), 1, twohopInt32, comm_, nullptr), "twohopAllGather",
            comm_);
    cluster_ = std::make_shared<Cluster>(make_cluster(node));
  }
  ~Bench() {
    (void)twohopBarrier(comm_, nullptr);
    (void)twohopCommDestroy(comm_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  int nodes() const { return nodes_; }
  const std::shared_ptr<const Cluster>& cluster() const { return cluster_; }

  struct Measured {
    double time_us = 0, core_us = 0;
  };
  /// Medians over batches: of the mean of all ranks' median calls, and of the time that all ranks together had a core.
  /// The same on all ranks.
  Measured measure(uint64_t bytes, double seconds) {
    send_.resize(bytes / 4 + 1, 1), recv_.resize(bytes / 4 + 1, 0);
    const double once = std::max(1e-6, agreed(batch(bytes, 3)));
    constexpr int kBatches = 5;
    const int calls = std::clamp(static_cast<int>(seconds / kBatches / once), 1, 5000);
    std::vector<double> times, core;
    for (int b = 0; b < kBatches; ++b) {
      const double before = core_seconds();
      times.push_back(agreed(batch(bytes, calls)));
      core.push_back(agreed(core_seconds() - before) * launcher_.size() / calls);
    }
    return {1e6 * median(times), 1e6 * median(core)};
  }

 private:
  /// The median call, as allreduce_perf reports it: one that waited for a scheduler's slice says nothing of the
  /// network.
  double batch(uint64_t bytes, int calls) {
    require(launcher_, twohopBarrier(comm_, nullptr), "twohopBarrier", comm_);
    std::vector<double> times;
    for (int i = 0; i < calls; ++i) {
      const auto begin = Clock::now();
      require(launcher_,
              twohopAllReduce(send_.data(), recv_.data(), bytes / 4, twohopFloat32, twohopSum, comm_, nullptr),
              "twohopAllReduce", comm_);
      times.push_back(seconds_since(begin));
    }
    return median(times);
  }
  double agreed(double mine) {
    double mean = 0;
    require(launcher_, twohopAllReduce(&mine, &mean, 1, twohopFloat64, twohopAvg, comm_, nullptr), "twohopAllReduce",
            comm_);
    return mean;
  }

  const Launcher& launcher_;
  twohopComm_t comm_ = nullptr;
  int nodes_ = 1;
  std::shared_ptr<const Cluster> cluster_;
  std::vector<float> send_, recv_;
};

void measure(const Launcher& launcher, const Options& library, int ranks_per_node, double seconds,
             std::vector<MeasuredCall>& calls) {
  for (const char* algo : {"two-hop", "flat"}) {
    Bench bench(launcher, algo, ranks_per_node, channels_of(library));
    if (bench.nodes() == 1 && std::strcmp(algo, "flat") == 0) continue;
    for (uint64_t bytes : {uint64_t{8}, uint64_t{4} << 10, uint64_t{32} << 10, uint64_t{256} << 10, uint64_t{2} << 20,
                           uint64_t{16} << 20, uint64_t{64} << 20}) {
      if (launcher.rank() == 0 && isatty(STDERR_FILENO))
        fmt::print(stderr, "\r\033[K{} nodes, {}, {} bytes", bench.nodes(), algo, bytes);
      const Choice choice{find_algorithm(algo), static_cast<uint64_t>(library.chunk_bytes), channels_of(library),
                          static_cast<uint32_t>(library.doorbell_batch)};
      const auto [time_us, core_us] = bench.measure(bytes, seconds);
      calls.push_back({bench.cluster(), choice, Collective::kAllReduce, bytes, time_us, core_us});
    }
  }
}

/// Names of hosts, as network namespaces and virtual nodes of one machine share them.
bool on_one_machine(const Launcher& launcher) {
  twohopConfig_t config = TWOHOP_CONFIG_INITIALIZER;
  twohopComm_t comm = nullptr;
  require(launcher, launcher.make_communicator(&comm, &config), "making a communicator", nullptr);
  std::array<char, 64> mine{};
  ::gethostname(mine.data(), mine.size() - 1);
  std::vector<std::array<char, 64>> all(static_cast<size_t>(launcher.size()));
  require(launcher, twohopAllGather(mine.data(), all.data(), mine.size(), twohopUint8, comm, nullptr),
          "twohopAllGather", comm);
  (void)twohopBarrier(comm, nullptr);
  (void)twohopCommDestroy(comm);
  return std::all_of(all.begin(), all.end(), [&](const auto& name) { return name == mine; });
}

NetworkModel start_model(const CalibrateOptions& o, const Options& library, bool one_machine) {
  std::string base = o.base;
  if (base == "auto") base = library.net == "softnic" ? "softnic" : library.net == "verbs" ? "host" : "tcp";
  NetworkModel model = *find_builtin_model(base);
  model.name = o.name.empty() ? "calibrated, " + base : o.name;
  model.cores = std::max(1u, std::thread::hardware_concurrency());
  model.nodes_per_machine = one_machine ? 0 : 1;
  model.copy_gbytes_per_s = copy_rate(64 << 10);
  model.memory_gbytes_per_s = 2 * copy_rate(256 << 20);  // a copy moves each byte twice
  model.reduce_gbytes_per_s = 1.5 * model.copy_gbytes_per_s;
  return model;
}

/// As if nothing but the wire were what calls between nodes waited for.
NetworkModel behind_a_slow_wire(NetworkModel model, const std::vector<MeasuredCall>& calls) {
  double fastest = 0;
  for (const MeasuredCall& c : calls) {
    const double n = c.cluster->nnodes();
    fastest = std::max(fastest, 2 * (n - 1) / n * static_cast<double>(c.bytes) / c.time_us * 1e-3);
  }
  if (fastest > 0) model.rail_gbytes_per_s = fastest / static_cast<double>(model.rails);
  for (double* copies : {&model.send_gbytes_per_s, &model.receive_gbytes_per_s})
    if (*copies > 0) *copies = std::max(*copies, model.copy_gbytes_per_s);
  return model;
}

FitOptions fit_options(const Launcher& launcher) {
  using M = NetworkModel;
  FitOptions fit;
  fit.members = {&M::switch_us,           &M::call_us,
                 &M::signal_us,           &M::sweep_us,
                 &M::doorbell_us,         &M::completion_us,
                 &M::latency_us,          &M::rail_gbytes_per_s,
                 &M::send_gbytes_per_s,   &M::receive_gbytes_per_s,
                 &M::reduce_gbytes_per_s, &M::memory_gbytes_per_s,
                 &M::cache_bytes,         &M::step_us};
  fit.progress = [&launcher](int pass, double error) {
    if (launcher.rank() == 0 && isatty(STDERR_FILENO))
      fmt::print(stderr, "\r\033[Kfit, pass {}: mean error {:.0f} %", pass + 1, 100 * error);
  };
  return fit;
}

int report(const CalibrateOptions& o, const NetworkModel& model, const MemorySettings& memory,
           const std::vector<MeasuredCall>& calls) {
  if (isatty(STDERR_FILENO)) fmt::print(stderr, "\r\033[K");
  fmt::print("{:>5} {:>5} {:<8} {:>10} {:>12} {:>12} {:>7}\n", "nodes", "ranks", "scheme", "bytes", "measured us",
             "predicted us", "error");
  for (const MeasuredCall& c : calls) {
    const double predicted = Predictor(c.cluster, model, memory_limits(*c.cluster, memory))
                                 .predict(c.choice, c.collective, c.bytes, {20'000})
                                 .time_us;
    fmt::print("{:>5} {:>5} {:<8} {:>10} {:>12.1f} {:>12.1f} {:>6.0f}%\n", c.cluster->nnodes(), c.cluster->nranks(),
               c.choice.algorithm->name, c.bytes, c.time_us, predicted, 100 * (predicted / c.time_us - 1));
  }
  std::ofstream file(o.output);
  file << format_model(model);
  file.close();
  if (!file) return fmt::print(stderr, "calibrate: -o {}: cannot be written\n", o.output), 3;
  fmt::print("written: {}\n", o.output);
  return 0;
}

int run(const CalibrateOptions& o, const Launcher& launcher) {
  const auto& library = options();
  if (!library) return say(launcher, library.error().message), 2;
  const auto begin = Clock::now();
  std::vector<MeasuredCall> calls;
  const bool one_machine = on_one_machine(launcher);
  NetworkModel model = launcher.rank() == 0 ? start_model(o, *library, one_machine) : NetworkModel();
  measure(launcher, *library, o.ranks_per_node, o.seconds, calls);
  if (o.ranks_per_node > 0) measure(launcher, *library, launcher.size(), o.seconds, calls);
  if (launcher.rank() != 0) return 0;
  const MemorySettings memory{static_cast<uint64_t>(library->buff_bytes), static_cast<uint64_t>(library->chunk_bytes),
                              channels_of(*library)};
  const double measured = seconds_since(begin);
  model = fit_model({model, behind_a_slow_wire(model, calls)}, memory, calls, fit_options(launcher));
  const int code = report(o, model, memory, calls);
  fmt::print("measured in {:.1f} s, fitted in {:.1f} s\n", measured, seconds_since(begin) - measured);
  return code;
}

}  // namespace
}  // namespace twohop::perf

int main(int argc, char** argv) {
  using namespace twohop::perf;
  CalibrateOptions o;
  CLI::App app("Measures a network model on the machines at hand.", "calibrate");
  app.add_option("-o,--output", o.output, "File for the model")->capture_default_str();
  app.add_option("--base", o.base, "Model to start from")
      ->check(CLI::IsMember({"auto", "host", "gpu", "tcp", "softnic"}));
  app.add_option("--name", o.name, "Name that the model gets");
  app.add_option("--ranks", o.ranks, "Ranks to start, when no launcher has")->check(CLI::Range(2, 64));
  app.add_option("--ranks-per-node", o.ranks_per_node, "Cut the machine into virtual nodes")
      ->check(CLI::Range(0, 1024));
  app.add_option("--seconds", o.seconds, "Time for each size")->check(CLI::Range(0.001, 60.0))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (!under_launcher()) {
    if (o.ranks_per_node == 0) o.ranks_per_node = (o.ranks + 1) / 2;
    if (const int code = start_own_ranks(o.ranks); code >= 0) return code;
  }
  auto started = Launcher::start(&argc, &argv);
  if (auto* error = std::get_if<std::string>(&started)) return fmt::print(stderr, "calibrate: {}\n", *error), 2;
  const auto& launcher = std::get<Launcher>(started);
  const int code = run(o, launcher);
  launcher.finish();
  return code;
}
