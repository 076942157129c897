// See tree_alarm.hpp.
#include "bootstrap/tree_alarm.hpp"

#include <sys/eventfd.h>

#include <cerrno>

namespace twohop {

Result<std::unique_ptr<Control::Alarm>> TreeAlarm::set(std::shared_ptr<Tree> tree, std::shared_ptr<Watcher> watcher) {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return system_error(errno, "cannot create an event descriptor for the control channel");
  auto listener = std::make_shared<Listener>(std::move(tree), std::move(fd));
  listener->look();  // what came with the last exchange wakes nobody
  watcher->add(listener);
  return std::unique_ptr<Control::Alarm>(new TreeAlarm(std::move(listener), std::move(watcher)));
}

TreeAlarm::~TreeAlarm() {
  {
    const std::lock_guard lock(listener_->mutex);  // waits for a serve() in progress
    listener_->over = true;
  }
  watcher_->wake();
}

bool TreeAlarm::Listener::finished() {
  const std::lock_guard lock(mutex);
  return over;
}

void TreeAlarm::Listener::look() {
  tree->fail_if_left();
  if (tree->failure() || tree->given_up()) signal_event(fd.get());
}

void TreeAlarm::Listener::serve(std::span<const pollfd> polled) {
  const std::lock_guard lock(mutex);
  if (over) return;
  tree->serve(polled);
  look();
}

}  // namespace twohop
