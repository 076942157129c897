// Who may touch which memory? Keys, bounds, access flags, protection domains.
#pragma once

#include "softnic/process.hpp"

namespace softnic {

// A region that cannot be deregistered while the hold lives.
class MrHold {
 public:
  MrHold() = default;
  explicit MrHold(SharedMr* mr) : mr_(mr) {}
  ~MrHold() { release(); }
  MrHold(MrHold&& other) noexcept : mr_(other.mr_) { other.mr_ = nullptr; }
  MrHold& operator=(MrHold&& other) noexcept {
    if (this != &other) {
      release();
      mr_ = other.mr_;
      other.mr_ = nullptr;
    }
    return *this;
  }

 private:
  void release() {
    if (mr_) mr_->users.fetch_sub(1, std::memory_order_release);
    mr_ = nullptr;
  }
  SharedMr* mr_ = nullptr;
};

struct Access {
  uint32_t key;
  uint32_t owner;
  uint32_t pd;
  uint32_t flags;
};

// The real address of [address, length) if the key grants it, and the hold that keeps it granted. nullopt: refused.
std::optional<uint64_t> hold_memory(SharedState* state, const Access& access, uint64_t address, uint64_t length,
                                    MrHold* hold);

}  // namespace softnic
