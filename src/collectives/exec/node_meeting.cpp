// See node_meeting.hpp.
#include "collectives/exec/node_meeting.hpp"

#include <algorithm>
#include <thread>

namespace twohop {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint16_t kAgrees = 1 << 13;

}  // namespace

Result<int> NodeMeeting::meet(Topic topic, bool agree) {
  std::atomic<uint64_t>& mine = r_.node->control(r_.node->me()).meeting.value;
  const auto wanted = static_cast<uint16_t>(topic.kind << 14 | kAgrees | topic.detail);
  const uint16_t words = agree ? wanted : static_cast<uint16_t>(wanted & ~kAgrees);
  const uint64_t before = mine.load(std::memory_order_relaxed) & 0xffff;
  mine.store(uint64_t{++number_} << 32 | before << 16 | words, std::memory_order_release);
  const Deadline deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(r_.timeout_s));
  for (int i = 0; i < r_.node->size(); ++i)
    if (auto here = wait_for(i, deadline); !here) return here.error();
  for (int i = 0; i < r_.node->size(); ++i)
    if (*said(i) != wanted) return r_.ranks[static_cast<size_t>(i)];
  return -1;
}

/// What a rank says at this meeting; nothing while it is not here.
std::optional<uint16_t> NodeMeeting::said(int local) const {
  const uint64_t word = r_.node->control(local).meeting.value.load(std::memory_order_acquire);
  const auto at = static_cast<uint32_t>(word >> 32);
  if (at == number_) return static_cast<uint16_t>(word);
  if (at == number_ + 1) return static_cast<uint16_t>(word >> 16);
  return std::nullopt;
}

Result<> NodeMeeting::wait_for(int local, Deadline deadline) const {
  const int rank = r_.ranks[static_cast<size_t>(local)];
  for (;;) {
    const bool left = r_.node->control(local).left.value.load(std::memory_order_acquire) != 0;
    if (said(local)) return {};  // before it left, if it has
    if (auto failed = r_.failure()) {
      failed->scope = Scope::kCommunicator;
      return *failed;
    }
    if (left) {
      Error e = make_error(twohopInvalidUsage,
                           "rank {} has destroyed its communicator and does not come to register or deregister GPU "
                           "memory any more",
                           rank);
      e.scope = Scope::kCommunicator;
      e.rank = rank;
      return e;
    }
    if (Clock::now() >= deadline) {
      Error e =
          make_error(twohopTimeout,
                     "rank {} has not come to register or deregister GPU memory for {:.0f} s (TWOHOP_TIMEOUT_S): "
                     "all ranks of a node call twohopCommRegister and twohopCommDeregister of device memory together",
                     rank, r_.timeout_s);
      e.scope = Scope::kCommunicator;
      e.rank = rank;
      return e;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace twohop
