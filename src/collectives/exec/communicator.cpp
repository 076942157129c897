// See communicator.hpp: the life of a communicator between init and destroy.
#include "collectives/exec/communicator.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "collectives/exec/execution.hpp"

namespace twohop {
namespace {

/// How long a healthy communicator waits, when it is destroyed, for peers to take what it has sent.
constexpr std::chrono::seconds kDrainTime{5};
/// How long a connection that broke may wait for its reason.
constexpr std::chrono::milliseconds kGraceTime{500};

}  // namespace

Communicator::~Communicator() {
  if (idle_) idle_->close();
  if (gpu_) {
    const Deadline drained = std::chrono::steady_clock::now() + kDrainTime;
    if (auto done = gpu_->finish(failed_ ? std::nullopt : std::optional(drained)); !done)
      log_warn("rank {}: communicator destroyed before its calls on the GPU were done with: {}", rank(),
               done.error().message);
  }
  if (endpoint_ && execution_ && !failed_) {
    if (auto drained = endpoint_->drain(std::chrono::steady_clock::now() + kDrainTime); !drained)
      log_warn("rank {}: communicator destroyed before its peers were done with it: {}", rank(),
               drained.error().message);
  }
  // Others learn why over the control channel. Without an execution the windows of some may never have been mapped.
  if (!execution_ || failed_) return;
  node_->control(node_->me()).left.value.store(1, std::memory_order_release);
  node_->wake_sleepers();
}

Result<uint64_t> Communicator::register_memory(std::span<std::byte> memory) {
  const TakenEndpoint taken(idle_.get(), !running_);
  auto number = registrations_.add(memory);
  if (!number || !endpoint_) return number;
  if (auto r = endpoint_->register_user_memory(memory); !r) {
    registrations_.remove(*number);
    return r.error();
  }
  return number;
}

Result<> Communicator::deregister_memory(uint64_t number) {
  const TakenEndpoint taken(idle_.get(), !running_);
  auto memory = registrations_.find(number);
  if (!memory) return memory.error();
  if (endpoint_) endpoint_->deregister_user_memory(*memory);
  registrations_.remove(number);
  return {};
}

Result<> Communicator::start(const Call& call) {
  TWOHOP_CHECK(!running_, "rank {}: a call is already running", rank());
  if (failed()) return *failure();
  if (idle_) idle_->take();
  ++number_;
  if (is_timed()) started_ = std::chrono::steady_clock::now();
  execution_->start(call, choice_for(call), number_);
  running_ = true;
  entered_.store(number_, std::memory_order_relaxed);
  return {};
}

Choice Communicator::choice_for(const Call& call) {
  return tuning_.choose(call.collective, call.count * type_size(call.type));
}

Result<Communicator::Progress> Communicator::progress() {
  if (failed_.load(std::memory_order_relaxed)) return *failure();
  auto done = execution_->progress();
  if (!done) return done.error();
  if (*done == Progress::kDone) {
    running_ = false;
    if (idle_) idle_->give();
    left_.store(number_, std::memory_order_relaxed);
    count_call();
  }
  return *done;
}

/// On one node a call may take less than a microsecond: only the first is timed there.
bool Communicator::is_timed() const {
  return number_ == 1 || endpoint_;
}

void Communicator::count_call() {
  ++counters_.calls;
  if (!is_timed()) return;
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - started_;
  (number_ == 1 ? counters_.first_call_ns : counters_.call_ns) += static_cast<uint64_t>(took.count());
}

void Communicator::note_standstill(double still_s) {
  execution_->look_at_lanes();
  waits_for_.store(execution_->waits_for(), std::memory_order_relaxed);
  still_ms_.store(static_cast<uint32_t>(still_s * 1e3), std::memory_order_relaxed);
}

Standing Communicator::standing() const {
  Standing s;
  s.call = calls_begun();
  const bool in_call = entered_.load(std::memory_order_relaxed) > left_.load(std::memory_order_relaxed) ||
                       (gpu_ && gpu_->started() > gpu_->finished());
  s.place = in_call ? Standing::Place::kInCall : Standing::Place::kBetweenCalls;
  s.waits_for = waits_for_.load(std::memory_order_relaxed);
  s.still_ms = still_ms_.load(std::memory_order_relaxed);
  const uint64_t made = made_.load(std::memory_order_relaxed);
  s.host_calls = static_cast<uint32_t>(made);
  s.gpu_calls = static_cast<uint32_t>(made >> 32);
  return s;
}

/// On the host and on the GPU: ranks that make the same calls can compare them.
uint64_t Communicator::calls_begun() const {
  return entered_.load(std::memory_order_relaxed) + (gpu_ ? gpu_->started() : 0);
}

Communicator::HangReport Communicator::hang_report() {
  constexpr std::chrono::milliseconds kAnswerTime{1000};
  const auto standings = control_->roll_call(kAnswerTime);
  return {who_is_late(standings, rank(), calls_begun()) + "; " + execution_->where_it_waits(),
          execution_->hang_table()};
}

void Communicator::prepare_sleep(std::vector<pollfd>& fds) {
  node_->announce_sleep();
  fds.push_back({node_->doorbell(), POLLIN, 0});
  if (endpoint_) endpoint_->wait_for(fds);
}

void Communicator::end_sleep() {
  node_->end_sleep();
}

void Communicator::fail(const Error& error) {
  if (record_failure(error)) log(LogLevel::kError, "{}", error.message);
  control_->announce(*failure());
}

void Communicator::fail_unless_told(const Error& error) {
  // A peer that fails closes its connections; why it failed comes over the control channel, a little later perhaps.
  const auto until = std::chrono::steady_clock::now() + kGraceTime;
  while (error.scope == Scope::kPeer && !failed_ && std::chrono::steady_clock::now() < until) {
    pollfd bell{node_->doorbell(), POLLIN, 0};
    ::poll(&bell, 1, 20);
    if (bell.revents != 0) node_->end_sleep();
  }
  fail(error);
}

bool Communicator::record_failure(const Error& error) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (failure_) return false;
    failure_ = error;
  }
  failed_ = true;
  if (gpu_) gpu_->stop();
  node_->wake_self();
  return true;
}

std::optional<Error> Communicator::failure() const {
  if (!failed()) return std::nullopt;
  std::lock_guard lock(failure_mutex_);
  return failure_;
}

CommCounters Communicator::counters() const {
  const TakenEndpoint taken(idle_.get(), !running_);
  CommCounters c = counters_;
  if (execution_) c.direct_puts = execution_->direct_puts();
  if (endpoint_) c.net = endpoint_->counters();
  if (gpu_) {
    c.calls += gpu_->finished();
    add(c.net, gpu_->net_counters());
  }
  return c;
}

std::vector<RailStatus> Communicator::rail_status() const {
  return endpoint_ ? endpoint_->rail_status() : std::vector<RailStatus>();
}

}  // namespace twohop
