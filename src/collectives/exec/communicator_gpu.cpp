// The part of a communicator that speaks for calls on its GPU: launching them, and what becomes of what the progress
// thread notices.
#include <algorithm>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "collectives/exec/communicator.hpp"

namespace twohop {
namespace {

constexpr double kHangReportS = 30;
constexpr std::chrono::milliseconds kGraceTime{500};

}  // namespace

Result<> Communicator::prepare_on_gpu(const Call& call) {
  if (auto e = failure()) return *e;
  return gpu_->prepare(call, choice_for(call));
}

Result<> Communicator::launch_on_gpu(const Call& call, GpuStream stream) {
  if (auto e = failure()) return *e;
  auto launched = gpu_->launch(call, choice_for(call), stream);
  if (launched) return launched;
  Error error = launched.error();
  error.scope = Scope::kCommunicator;
  error.rank = rank();
  fail(error);
  return *failure();
}

Result<uint64_t> Communicator::register_gpu_memory(std::span<std::byte> memory, bool kept, bool idle) {
  auto number = gpu_->register_memory(memory, kept, idle);
  if (!number && number.error().scope == Scope::kCommunicator) fail(number.error());
  return number;
}

Result<> Communicator::deregister_gpu_memory(uint64_t number, bool idle) {
  auto done = gpu_->deregister_memory(number, idle);
  if (!done && done.error().scope == Scope::kCommunicator) fail(done.error());
  return done;
}

GpuProgress::Hooks Communicator::gpu_hooks() {
  return {.failed = [this](const Error& error) { fail_gpu_calls(error); },
          .describe = [this](const LoopReport& report) { return gpu_->describe(report); },
          .stands_still = [this](double still_s, bool said) { return gpu_stands_still(still_s, said); },
          .is_over = [this] { return failed_.load(std::memory_order_relaxed); }};
}

/// As fail_unless_told(), but from a thread that must leave the doorbell to the one that runs calls on the host.
void Communicator::fail_gpu_calls(Error error) {
  const auto until = std::chrono::steady_clock::now() + kGraceTime;
  while (error.scope == Scope::kPeer && !failed_ && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  fail(error);
}

Result<> Communicator::compare_places() {
  constexpr std::chrono::milliseconds kAnswerTime{1000};
  const auto elsewhere = who_calls_elsewhere(control_->roll_call(kAnswerTime));
  if (!elsewhere) return {};
  Error e = make_error(twohopInvalidUsage,
                       "calls do not match: {}. All ranks must make the same calls in the same order, on the same kind "
                       "of memory",
                       *elsewhere);
  e.scope = Scope::kCommunicator;
  return e;
}

bool Communicator::gpu_stands_still(double still_s, bool said) {
  still_ms_.store(static_cast<uint32_t>(still_s * 1e3), std::memory_order_relaxed);
  if (still_s < kComparePlacesS) {
    places_compared_ = false;
  } else if (!std::exchange(places_compared_, true)) {
    if (auto same = compare_places(); !same) {
      fail(same.error());
      return true;
    }
  }
  const bool out_of_time = still_s >= timeout_s();
  if (!out_of_time && (said || still_s < kHangReportS)) return said;
  constexpr std::chrono::milliseconds kAnswerTime{1000};
  const std::string late = who_is_late(control_->roll_call(kAnswerTime), rank(), calls_begun());
  log_warn("rank {}: call {} on GPU {} without progress for {:.0f} s: {}", rank(), gpu_->started(), gpu_->device(),
           still_s, late);
  if (!out_of_time) return true;
  Error e = make_error(twohopTimeout, "rank {}: no progress for {:.0f} s (TWOHOP_TIMEOUT_S) in call {} on GPU {}: {}",
                       rank(), still_s, gpu_->started(), gpu_->device(), late);
  e.scope = Scope::kCommunicator;
  fail(e);
  return true;
}

}  // namespace twohop
