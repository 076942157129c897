// Who listens to the control tree while a rank joins and waits for data connections? The watcher thread, as long as
// this lives: without it nobody would hear that the awaited rank is dead before the time to join is over.
#pragma once

#include <memory>
#include <mutex>

#include "bootstrap/control.hpp"
#include "bootstrap/tree.hpp"
#include "bootstrap/watcher.hpp"

namespace twohop {

class TreeAlarm final : public Control::Alarm {
 public:
  static Result<std::unique_ptr<Control::Alarm>> set(std::shared_ptr<Tree> tree, std::shared_ptr<Watcher> watcher);
  /// Afterwards the watcher reads no more from the tree.
  ~TreeAlarm() override;
  int fd() const override { return listener_->fd.get(); }
  std::optional<Error> cause() const override {
    auto failure = listener_->tree->failure();
    return failure ? failure : listener_->tree->given_up();
  }

 private:
  struct Listener final : Watched {
    Listener(std::shared_ptr<Tree> t, Fd f) : tree(std::move(t)), fd(std::move(f)) {}
    bool finished() override;
    void append_to(std::vector<pollfd>& polled) override { tree->append_to(polled); }
    void serve(std::span<const pollfd> polled) override;
    void look();
    const std::shared_ptr<Tree> tree;
    const Fd fd;
    std::mutex mutex;
    bool over = false;
  };
  TreeAlarm(std::shared_ptr<Listener> listener, std::shared_ptr<Watcher> watcher)
      : listener_(std::move(listener)), watcher_(std::move(watcher)) {}

  std::shared_ptr<Listener> listener_;
  std::shared_ptr<Watcher> watcher_;
};

}  // namespace twohop
