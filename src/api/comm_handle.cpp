// The parts of a communicator's handle that are more than a line: the error kept for it, its counters, its checks.
#include "api/comm_handle.hpp"

#include "api/error.hpp"

void twohopComm::update_counters() {
  std::lock_guard lock(mutex_);
  counters_ = communicator->counters();
}

twohop::CommCounters twohopComm::read_counters() {
  if (tickets.idle()) update_counters();
  std::lock_guard lock(mutex_);
  return counters_;
}

void twohopComm::remember_error(const std::string& text) {
  std::lock_guard lock(mutex_);
  last_error_ = text;
}

std::string twohopComm::last_error() const {
  if (auto failure = communicator->failure()) return failure->message;
  std::lock_guard lock(mutex_);
  return last_error_;
}

namespace twohop {

Result<twohopComm*> live(twohopComm_t comm) {
  if (!comm)
    return null_argument("comm", "a communicator (one that was made inside a group exists after twohopGroupEnd)");
  if (!LiveComms::of_process().contains(comm))
    return make_error(
        twohopInvalidArgument,
        "comm={} is not a communicator: it was destroyed, inherited through fork(), or not made by twohopCommInit*",
        static_cast<const void*>(comm));
  return comm;
}

Result<twohopComm*> live_and_healthy(twohopComm_t comm) {
  auto handle = live(comm);
  if (!handle) return handle;
  if (comm->communicator->failed()) return *comm->communicator->failure();
  return handle;
}

}  // namespace twohop
