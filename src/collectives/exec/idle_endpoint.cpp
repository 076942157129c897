// See idle_endpoint.hpp.
#include "collectives/exec/idle_endpoint.hpp"

#include <sched.h>
#include <sys/epoll.h>

namespace twohop {

std::shared_ptr<IdleEndpoint> IdleEndpoint::watch(Endpoint& endpoint) {
  if (endpoint.attention_fd() < 0) return nullptr;
  auto watcher = Watcher::instance();
  if (!watcher) return nullptr;
  auto idle = std::make_shared<IdleEndpoint>(endpoint, *watcher);
  (*watcher)->add(idle);
  return idle;
}

void IdleEndpoint::take() {
  while (!try_take()) sched_yield();
}

bool IdleEndpoint::try_take() {
  int nobody = kNobody;
  return owner_.compare_exchange_strong(nobody, kCall);
}

/// The watcher sets `wanted_` before it tries, and this looks at it after letting go: one of the two sees the other.
void IdleEndpoint::give() {
  owner_.store(kNobody);
  if (wanted_.load()) watcher_->wake();
}

void IdleEndpoint::close() {
  if (owner_.load() != kCall) take();
  closed_.store(true, std::memory_order_release);
  watcher_->wake();
}

void IdleEndpoint::serve(std::span<const pollfd> polled) {
  if (polled[0].revents != 0 && !finished()) {
    epoll_event events[16];  // edge-triggered: looking is enough to be told again only of what is new
    while (::epoll_wait(fd_.get(), events, 16, 0) == 16) continue;
    wanted_ = true;
  }
  if (!wanted_.load() && !again_) return;
  wanted_ = true;
  again_ = false;
  int free = kNobody;
  if (!owner_.compare_exchange_strong(free, kWatcher)) return;  // give() wakes us
  wanted_ = false;
  again_ = endpoint_.serve_between_calls();
  owner_.store(kNobody);
}

}  // namespace twohop
