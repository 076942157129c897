// What is behind a twohopComm_t: the communicator, and what the C API adds to it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "api/live_table.hpp"
#include "api/tickets.hpp"
#include "collectives/exec/communicator.hpp"

namespace twohop {

/// A reduction made by twohopRedOpCreatePreMulSum.
struct PreMulSum {
  twohopDataType_t type = twohopFloat32;
  Scalar scalar{};
};

}  // namespace twohop

struct twohopComm : std::enable_shared_from_this<twohopComm> {
  explicit twohopComm(std::unique_ptr<twohop::Communicator> c) : communicator(std::move(c)) {}

  std::unique_ptr<twohop::Communicator> communicator;
  twohop::Tickets tickets;

  // Used by the communicator's one thread. Numbers are not used again, so that a destroyed operation is noticed.
  std::unordered_map<int, twohop::PreMulSum> operations;
  int next_operation = TWOHOP_NUM_OPS;
  /// Memory of twohopMemAlloc that is registered, by the number of the registration: it cannot be freed meanwhile.
  std::unordered_map<uint64_t, std::shared_ptr<const void>> held_memory;

  /// The counters may be read directly only while no call is pending; else this copy, taken between calls, is given.
  void update_counters();
  twohop::CommCounters read_counters();

  void remember_error(const std::string& text);
  std::string last_error() const;

 private:
  mutable std::mutex mutex_;
  std::string last_error_;
  twohop::CommCounters counters_;
};

namespace twohop {

using LiveComms = LiveTable<twohopComm>;

/// The handle if it is live, else an error that names it.
Result<twohopComm*> live(twohopComm_t comm);
/// The same, and the communicator has not failed.
Result<twohopComm*> live_and_healthy(twohopComm_t comm);

}  // namespace twohop
