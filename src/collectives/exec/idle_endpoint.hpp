// Who may touch an endpoint now: the thread that runs a call, or, between calls, the watcher thread? A peer whose rail
// died may need this rank although it is in no call: what it has sent must be issued again, or acknowledged.
//
// A call takes the endpoint and gives it back: two atomic operations. The watcher serves it only when it is free; what
// it could not serve then, the end of the call lets it do.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <memory>

#include "bootstrap/watched.hpp"
#include "bootstrap/watcher.hpp"
#include "transport/endpoint.hpp"

namespace twohop {

class IdleEndpoint : public Watched {
 public:
  /// Null where nobody will need it, or there is no watcher: then a peer in need waits for the next call.
  static std::shared_ptr<IdleEndpoint> watch(Endpoint& endpoint);
  /// For a connected endpoint, which must live until close().
  explicit IdleEndpoint(Endpoint& endpoint, std::shared_ptr<Watcher> watcher)
      : endpoint_(endpoint), fd_(::fcntl(endpoint.attention_fd(), F_DUPFD_CLOEXEC, 0)), watcher_(std::move(watcher)) {}

  /// Waits while somebody else has it. Pre: no call has taken it.
  void take();
  bool try_take();
  void give();
  /// The watcher does not touch it any more; from the thread that may have taken it.
  void close();

  bool finished() override { return closed_.load(std::memory_order_acquire); }
  void append_to(std::vector<pollfd>& polled) override { polled.push_back({fd_.get(), POLLIN, 0}); }
  void serve(std::span<const pollfd> polled) override;
  int patience_ms() override { return again_ ? 1 : -1; }

 private:
  enum Owner : int { kNobody, kCall, kWatcher };
  Endpoint& endpoint_;
  Fd fd_;  // its own, so that its number stays taken
  std::shared_ptr<Watcher> watcher_;
  std::atomic<int> owner_{kNobody};
  std::atomic<bool> wanted_{false}, closed_{false};
  bool again_ = false;  // the watcher's
};

/// Holds it for a scope, if it is free; null: nothing to hold. A call that ended with an error keeps it.
class TakenEndpoint {
 public:
  explicit TakenEndpoint(IdleEndpoint* idle, bool wait = false) : idle_(idle) {
    if (idle_ && wait)
      idle_->take();
    else if (idle_ && !idle_->try_take())
      idle_ = nullptr;
  }
  ~TakenEndpoint() {
    if (idle_) idle_->give();
  }
  TakenEndpoint(const TakenEndpoint&) = delete;
  TakenEndpoint& operator=(const TakenEndpoint&) = delete;

 private:
  IdleEndpoint* idle_;
};

}  // namespace twohop
