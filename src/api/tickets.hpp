// In which order do the calls of one communicator run, when they come through several streams and threads? As issued.
#pragma once

#include <atomic>
#include <cstdint>

namespace twohop {

/// Numbers drawn at issue, served one after the other. No lock, no allocation. Numbers wrap; 2^32 may be pending.
class Tickets {
 public:
  uint32_t take() { return issued_.fetch_add(1, std::memory_order_relaxed); }

  /// Blocks until all earlier tickets are done.
  void wait_for(uint32_t ticket) const {
    for (uint32_t now = serving_.load(std::memory_order_acquire); now != ticket;
         now = serving_.load(std::memory_order_acquire))
      serving_.wait(now, std::memory_order_acquire);
  }

  /// The holder of `ticket` passes its turn on.
  void done(uint32_t ticket) {
    serving_.store(ticket + 1, std::memory_order_release);
    serving_.notify_all();
  }

  bool idle() const { return serving_.load(std::memory_order_acquire) == issued_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> issued_{0}, serving_{0};
};

/// Waits for its ticket's turn; passes it on at the end of its life.
class Turn {
 public:
  Turn(Tickets& tickets, uint32_t ticket) : tickets_(tickets), ticket_(ticket) { tickets_.wait_for(ticket_); }
  ~Turn() { tickets_.done(ticket_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Tickets& tickets_;
  uint32_t ticket_;
};

}  // namespace twohop
