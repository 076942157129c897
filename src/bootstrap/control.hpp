// The control channel of a communicator: a tree of TCP connections, O(fan-out) sockets per rank.
//
// During init it carries collective exchanges. Afterwards the process's watcher thread listens on it: a lost process
// (its sockets close) or an announced failure is flooded to all ranks within a second, and handed to on_failure.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/handshake.hpp"
#include "base/result.hpp"
#include "bootstrap/standing.hpp"

namespace twohop {

class Control {
 public:
  /// Joins the job. Returns when every rank has its tree connections. Errors: bad id, a rank that joined twice, ranks
  /// that disagree on nranks, a timeout that names the missing ranks.
  static Result<std::unique_ptr<Control>> join(const twohopUniqueId& id, int rank, int nranks, Deadline deadline);

  /// Says goodbye if nothing failed (its closing is then no failure for others), stops watching, closes. Does not wait
  /// for peers.
  virtual ~Control() = default;

  virtual int rank() const = 0;
  virtual int nranks() const = 0;
  virtual const Secret& secret() const = 0;

  /// Every rank's bytes (at most 64 KiB each, sizes may differ), by rank. Collective; blocks. Only before watch().
  virtual Result<std::vector<Bytes>> all_gather(std::span<const std::byte> mine, Deadline deadline) = 0;

  /// The watcher thread listens while this rank waits for something else than an exchange.
  class Alarm {
   public:
    virtual ~Alarm() = default;
    /// Readable once a rank was lost, has left, has announced a failure or gives up.
    virtual int fd() const = 0;
    /// Why: what the next exchange would end with, unless a rank has only given up.
    virtual std::optional<Error> cause() const = 0;
  };
  /// No exchange before it is destroyed. Only before watch().
  virtual Result<std::unique_ptr<Alarm>> set_alarm() = 0;

  /// Tells the ranks that wait for something else than an exchange that they wait in vain. Before the next exchange,
  /// which goes on as if nothing had happened.
  virtual void give_up(const Error& error) = 0;

  /// Called once at most, from the watcher thread: a rank was lost, or announced an error. error.rank is that rank.
  using FailureHandler = std::function<void(const Error&)>;
  /// Hands the sockets to the watcher thread. `standing` answers other ranks' roll calls; it runs in that thread and
  /// must not wait.
  virtual void watch(FailureHandler on_failure, std::function<Standing()> standing = nullptr) = 0;

  /// Where all ranks stand, by rank; empty for those that did not answer in time. Any thread but the watcher's; after
  /// watch(). Also the answers to another rank's roll call of the last seconds will do.
  virtual std::vector<std::optional<Standing>> roll_call(std::chrono::milliseconds wait) = 0;

  /// Tells all other ranks (code and message travel), from any thread; returns at once. Later announcements are
  /// ignored.
  virtual void announce(const Error& error) = 0;
};

}  // namespace twohop
