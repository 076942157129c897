// Communicator: one rank's membership in a job: its node's windows, its endpoint, its control channel, and the calls it
// runs.
//
// Calls are started one after the other and progressed without blocking; run_all() (run.hpp) progresses several
// communicators of one thread together and does the waiting.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "bootstrap/control.hpp"
#include "collectives/exec/call.hpp"
#include "collectives/exec/execution.hpp"
#include "collectives/exec/gpu/gpu_execution.hpp"
#include "collectives/exec/idle_endpoint.hpp"
#include "collectives/exec/node_group.hpp"
#include "collectives/exec/numa_binding.hpp"
#include "collectives/exec/tuning.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/layout.hpp"
#include "collectives/plan/selection.hpp"
#include "device/reduce.hpp"
#include "transport/endpoint.hpp"

namespace twohop {

/// The resolved configuration of one communicator; all ranks must have the same.
struct CommConfig {
  std::string algo = "auto";
  std::string name;
  int nchannels = 0;  // 0: the network's default
  int ranks_per_node = 0;
  double timeout_s = 600;
};

struct CommCounters {
  uint64_t calls = 0, sleeps = 0, yields = 0;
  uint64_t direct_puts = 0;  // sent from the user's registered memory
  uint64_t init_ns = 0, first_call_ns = 0;
  uint64_t call_ns = 0;  // calls after the first, when there are several nodes
  EndpointCounters net;
};

class Communicator {
 public:
  /// The GPU that a communicator gets which this thread asks for now, whatever thread then joins. Nothing where the
  /// process does not use GPUs (yet) and is not told to.
  static Result<std::optional<int>> gpu_of_thread(const Options& options);
  /// Joins the job; blocks. The options are the process's. That its GPU is an error is told to all ranks.
  static Result<std::unique_ptr<Communicator>> init(const twohopUniqueId& id, int nranks, int rank,
                                                    const CommConfig& config, const Options& options,
                                                    const Result<std::optional<int>>& gpu = std::optional<int>());
  ~Communicator();  // drains and says goodbye when healthy; closes at once when failed

  int rank() const { return control_->rank(); }
  int nranks() const { return control_->nranks(); }
  const Cluster& cluster() const { return cluster_; }
  const Tuning& tuning() const { return tuning_; }
  const std::string& name() const { return config_.name; }
  /// Where threads of ours that progress it belong.
  const NumaBinding& binding() const { return binding_; }

  /// Begins the next call. Pre: no call is running; the arguments are checked (check_call in call.hpp).
  Result<> start(const Call& call);
  bool running() const { return running_; }
  /// Advances the running call without blocking: what was done, and whether the call is complete.
  using Progress = Execution::Progress;
  Result<Progress> progress();
  /// For the waiter, now and then while the call does not move: keeps what hang reports and other ranks' roll calls
  /// need.
  void note_standstill(double still_s);
  /// Where the call stands, lane by lane, and which rank is late; asks the others, which takes up to a second.
  struct HangReport {
    std::string summary, table;
  };
  HangReport hang_report();
  std::string hang_table() const { return execution_->hang_table(); }

  /// For the waiter: between prepare_sleep and end_sleep peers that signal write to one of the fds.
  void prepare_sleep(std::vector<pollfd>& fds);
  /// Room for the fds of a sleep, kept so that no call allocates.
  std::vector<pollfd>& poll_set() { return poll_set_; }
  void end_sleep();
  void count_sleep() { ++counters_.sleeps; }
  void count_yield() { ++counters_.yields; }
  int spin_polls() const { return spin_polls_; }
  int yields_before_sleep() const { return static_cast<int>(options_.yields); }
  double timeout_s() const { return config_.timeout_s; }

  /// The first error ends the communicator: every pending and later call returns it. Any thread. Tells the other ranks.
  void fail(const Error& error);
  /// The same; but when `error` is a broken connection, waits up to half a second for another rank to say why.
  void fail_unless_told(const Error& error);
  std::optional<Error> failure() const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  /// For the caller of calls: the program has made one, in its own order, on the GPU or on the host. Where ranks differ
  /// in that, compare_places() finds it.
  void count_made(bool on_gpu) {  // by one thread at a time
    const uint64_t made = made_.load(std::memory_order_relaxed);
    made_.store(made + (on_gpu ? uint64_t{1} << 32 : 1), std::memory_order_relaxed);
  }
  /// Asks all ranks where they make their calls, which takes up to a second. The error: one of them makes a call on
  /// host memory where another makes one on a GPU. To be asked once, by a call that has not moved for so long.
  static constexpr double kComparePlacesS = 1;
  Result<> compare_places();

  /// Calls on GPU memory, which do not take turns with the others. The GPU is the one that was current at the init;
  /// null when a rank has none, and why_no_gpu() says which and what it lacks.
  const GpuExecution* gpu() const { return gpu_.get(); }
  const std::string& why_no_gpu() const { return why_no_gpu_; }
  /// Binds and uploads what the call needs; before any call of a group is launched.
  Result<> prepare_on_gpu(const Call& call);
  /// Enqueues the call on the stream and returns. An error other than a failure of before ends the communicator: the
  /// other ranks would wait for this call.
  Result<> launch_on_gpu(const Call& call, GpuStream stream);

  /// Lets calls send from this memory of the user's without staging; a number for deregister_memory. No call may run.
  /// Errors: overlaps what is registered; the network refuses.
  Result<uint64_t> register_memory(std::span<std::byte> memory);
  Result<> deregister_memory(uint64_t number);

  /// The same for device memory, which all ranks of the node register together; blocks until they have come. Pre:
  /// gpu().
  Result<uint64_t> register_gpu_memory(std::span<std::byte> memory, bool kept, bool idle);
  Result<> deregister_gpu_memory(uint64_t number, bool idle);

  CommCounters counters() const;
  /// What the devices of its rails say; asks them. Any thread.
  std::vector<RailStatus> rail_status() const;

 private:
  friend class CommunicatorInit;
  Communicator(const CommConfig& config, const Selection& selection, const Options& options)
      : config_(config), selection_(selection), options_(options) {
    poll_set_.reserve(64);
  }
  bool record_failure(const Error& error);  // true when it is the first
  bool is_timed() const;
  void count_call();
  Standing standing() const;
  uint64_t calls_begun() const;
  Choice choice_for(const Call& call);
  // For the progress thread of the calls on the GPU.
  GpuProgress::Hooks gpu_hooks();
  void fail_gpu_calls(Error error);
  bool gpu_stands_still(double still_s, bool said);

  CommConfig config_;
  Selection selection_;
  Options options_;
  NumaBinding binding_;
  Cluster cluster_;
  std::unique_ptr<NodeGroup> node_;
  std::unique_ptr<Endpoint> endpoint_;  // null when there is one node only
  std::shared_ptr<IdleEndpoint> idle_;  // null where nobody needs it between calls
  Registrations registrations_;
  LayoutLimits limits_;
  Tuning tuning_;
  Isa isa_ = Isa::kScalar;
  int spin_polls_ = 1;

  std::unique_ptr<GpuExecution> gpu_;
  std::string why_no_gpu_;
  bool places_compared_ = false;  // the progress thread's: since the running call stands still

  std::unique_ptr<Trace> trace_;  // null: off; the execution writes into it
  std::unique_ptr<Execution> execution_;
  bool running_ = false;
  uint64_t number_ = 0;  // of the last call started
  std::vector<pollfd> poll_set_;
  std::chrono::steady_clock::time_point started_;  // of the running call, if it is timed
  // For roll calls, which the watcher thread answers.
  std::atomic<uint64_t> entered_{0}, left_{0};  // the last call begun, and ended
  std::atomic<uint64_t> made_{0};               // by the program: on GPUs << 32 | on the host, which may overflow
  std::atomic<int> waits_for_{-1};
  std::atomic<uint32_t> still_ms_{0};
  CommCounters counters_;

  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;
  std::optional<Error> failure_;
  std::unique_ptr<Control> control_;  // last member: its handler must not outlive the rest
};

}  // namespace twohop
