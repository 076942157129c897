// Runs calls in the order in which they were issued, one at a time per communicator.
#include "api/bundle.hpp"

#include <algorithm>

#include "api/error.hpp"

namespace twohop {
namespace {

/// An exception (out of memory) in mid-call leaves the call half done: its communicator cannot go on.
Error fail_after_exception(Communicator& comm) {
  Error error = error_of_exception();
  error.scope = Scope::kCommunicator;
  comm.fail(error);
  return error;
}

}  // namespace

std::mutex& issue_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

void Bundle::add(twohopComm& comm, const Call& call) {
  auto member = std::find_if(members_.begin(), members_.end(), [&](const Member& m) { return m.comm.get() == &comm; });
  if (member == members_.end()) member = members_.insert(member, {comm.shared_from_this(), {}, 0});
  member->calls.push_back(call);
}

void Bundle::prepare() {
  for (const Member& m : members_) work_.push_back({m.comm->communicator.get(), m.calls});
}

void Bundle::issue() {
  for (Member& m : members_) {
    if (m.comm->tickets.idle()) m.comm->update_counters();
    m.ticket = m.comm->tickets.take();
  }
}

Result<> Bundle::run() {
  for (Member& m : members_) m.comm->tickets.wait_for(m.ticket);
  Result<> result = run_in_turn();
  for (Member& m : members_) {
    m.comm->update_counters();
    m.comm->tickets.done(m.ticket);
  }
  return result;
}

Result<> Bundle::run_in_turn() {
  try {
    return run_all(work_);
  } catch (...) {
    Error error;
    for (Work& w : work_) error = fail_after_exception(*w.comm);
    return error;
  }
}

Result<> run_blocking(twohopComm& comm, const Call& call) {
  Turn turn(comm.tickets);
  try {
    return run_one(*comm.communicator, call);
  } catch (...) {
    return fail_after_exception(*comm.communicator);
  }
}

}  // namespace twohop
