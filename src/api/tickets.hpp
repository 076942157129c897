// In which order do the calls of one communicator run, when they come through several streams and threads? As issued.
#pragma once

#include <atomic>
#include <cstdint>

namespace twohop {

/// Numbers drawn at issue, served one after the other. No lock, no allocation. Numbers wrap; 2^32 may be pending.
/// One thread at a time draws, as one thread at a time uses a communicator; any may serve.
class Tickets {
 public:
  uint32_t take() {
    const uint32_t ticket = issued_.load(std::memory_order_relaxed);
    issued_.store(ticket + 1, std::memory_order_relaxed);
    return ticket;
  }

  /// Blocks until all earlier tickets are done.
  void wait_for(uint32_t ticket) const {
    for (uint32_t now = serving_.load(std::memory_order_acquire); now != ticket;
         now = serving_.load(std::memory_order_acquire))
      serving_.wait(now, std::memory_order_acquire);
  }

  /// The holder of `ticket` passes its turn on.
  void done(uint32_t ticket) {
    // In one order with the waiters' announcements: notify_all() looks for them and wakes nobody if it sees none.
    serving_.store(ticket + 1, std::memory_order_seq_cst);
    serving_.notify_all();
  }
  /// The same by the thread that draws. While it is at it nobody draws a later ticket, except a thread that aborts the
  /// communicator under it and destroys it, which has looked many times before it sleeps.
  void done_by_issuer(uint32_t ticket) {
    serving_.store(ticket + 1, std::memory_order_release);
    if (issued_.load(std::memory_order_relaxed) != ticket + 1) serving_.notify_all();
  }

  bool idle() const { return serving_.load(std::memory_order_acquire) == issued_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> issued_{0}, serving_{0};
};

/// A turn of the issuing thread itself: draws, waits, and passes it on at the end of its life.
class Turn {
 public:
  explicit Turn(Tickets& tickets) : tickets_(tickets), ticket_(tickets.take()) { tickets_.wait_for(ticket_); }
  ~Turn() { tickets_.done_by_issuer(ticket_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Tickets& tickets_;
  uint32_t ticket_;
};

}  // namespace twohop
