// Communicator: one rank's membership in a job: its node's windows, its endpoint, its control channel, and the calls it
// runs.
//
// Calls are started one after the other and progressed without blocking; run_all() (run.hpp) progresses several
// communicators of one thread together and does the waiting.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "bootstrap/control.hpp"
#include "collectives/exec/call.hpp"
#include "collectives/exec/execution.hpp"
#include "collectives/exec/node_group.hpp"
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/layout.hpp"
#include "device/reduce.hpp"
#include "transport/endpoint.hpp"

namespace twohop {

/// The resolved configuration of one communicator; all ranks must have the same.
struct CommConfig {
  std::string algo = "auto";
  std::string name;
  int nchannels = 2;
  int ranks_per_node = 0;
  double timeout_s = 600;
};

struct CommCounters {
  uint64_t calls = 0, sleeps = 0, yields = 0;
  EndpointCounters net;
};

class Communicator {
 public:
  /// Joins the job; blocks. The options are the process's.
  static Result<std::unique_ptr<Communicator>> init(const twohopUniqueId& id, int nranks, int rank,
                                                    const CommConfig& config, const Options& options);
  ~Communicator();  // drains and says goodbye when healthy; closes at once when failed

  int rank() const { return control_->rank(); }
  int nranks() const { return control_->nranks(); }
  const Cluster& cluster() const { return cluster_; }
  const std::string& name() const { return config_.name; }

  /// Begins the next call. Pre: no call is running; the arguments are checked (check_call in call.hpp).
  Result<> start(const Call& call);
  bool running() const { return running_; }
  /// Advances the running call without blocking: what was done, and whether the call is complete.
  using Progress = Execution::Progress;
  Result<Progress> progress();
  /// Where a call stands that does not move: each lane that waits, and for whom. For messages.
  std::string where_it_waits() const;

  /// For the waiter: between prepare_sleep and end_sleep peers that signal write to one of the fds.
  void prepare_sleep(std::vector<pollfd>& fds);
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

  CommCounters counters() const;

 private:
  friend class CommunicatorInit;
  Communicator(const CommConfig& config, const Options& options) : config_(config), options_(options) {}
  bool record_failure(const Error& error);  // true when it is the first
  const Algorithm& algorithm_for(const Call& call) const;

  CommConfig config_;
  Options options_;
  Cluster cluster_;
  std::unique_ptr<NodeGroup> node_;
  std::unique_ptr<Endpoint> endpoint_;  // null when there is one node only
  LayoutLimits limits_;
  Isa isa_ = Isa::kScalar;
  int spin_polls_ = 1;

  std::unique_ptr<Trace> trace_;  // null: off; the execution writes into it
  std::unique_ptr<Execution> execution_;
  bool running_ = false;
  uint64_t number_ = 0;  // of the last call started
  CommCounters counters_;

  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;
  std::optional<Error> failure_;
  std::unique_ptr<Control> control_;  // last member: its handler must not outlive the rest
};

}  // namespace twohop
