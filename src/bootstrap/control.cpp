// How does a rank join its communicator, and take part in the control tree? What travels there: tree.cpp.
#include "bootstrap/control.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <new>
#include <optional>

#include "base/options.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/tree.hpp"
#include "bootstrap/tree_alarm.hpp"
#include "bootstrap/unique_id.hpp"
#include "bootstrap/watcher.hpp"
#include "bootstrap/wire.hpp"

namespace twohop {
namespace {

/// The hello of a child to its parent.
struct ChildHello {
  int rank = -1, nranks = 0;
  std::string identity;
};

Bytes encode(const ChildHello& h) {
  Writer w;
  w.u8(kBootstrapVersion);
  w.i32(h.rank);
  w.i32(h.nranks);
  w.text(h.identity, kMaxIdentityBytes);
  return w.take();
}

std::optional<ChildHello> decode_child(std::span<const std::byte> data) {
  Reader r(data);
  ChildHello h;
  const bool same_version = r.u8() == kBootstrapVersion;
  h.rank = r.i32();
  h.nranks = r.i32();
  h.identity = r.text(kMaxIdentityBytes);
  if (!r.complete() || !same_version) return std::nullopt;
  return h;
}

class TreeControl final : public Control {
 public:
  TreeControl(int rank, int nranks, const Secret& secret, std::vector<TreeLink> links, std::shared_ptr<Watcher> watcher)
      : rank_(rank),
        nranks_(nranks),
        secret_(secret),
        watcher_(std::move(watcher)),
        tree_(std::make_shared<Tree>(rank, nranks, std::move(links))) {}

  ~TreeControl() override {
    if (process_ != getpid()) {
      // A forked child: threads that held locks of ours do not exist here, so it touches nothing.
      (void)new (std::nothrow) std::pair(std::move(watcher_), std::move(tree_));
      return;
    }
    tree_->leave();
    if (watched_)
      watcher_->wake();
    else
      watcher_->add(tree_);
  }

  int rank() const override { return rank_; }
  int nranks() const override { return nranks_; }
  const Secret& secret() const override { return secret_; }

  Result<std::vector<Bytes>> all_gather(std::span<const std::byte> mine, Deadline deadline) override {
    if (watched_) return make_error(twohopInternalError, "all_gather after watch");
    auto all = tree_->all_gather(mine, deadline);
    // The others would only see that this rank has left: they are to have the same error.
    if (!all && all.error().code == twohopTimeout) tree_->announce(all.error());
    return all;
  }

  Result<std::unique_ptr<Alarm>> set_alarm() override {
    if (watched_) return make_error(twohopInternalError, "set_alarm after watch");
    return TreeAlarm::set(tree_, watcher_);
  }

  void watch(FailureHandler on_failure, std::function<Standing()> standing) override {
    tree_->set_standing(std::move(standing));
    tree_->set_handler(std::move(on_failure));
    if (!std::exchange(watched_, true)) watcher_->add(tree_);
  }

  std::vector<std::optional<Standing>> roll_call(std::chrono::milliseconds wait) override {
    tree_->ask();
    watcher_->wake();  // what a socket does not take at once is the watcher's to send
    return tree_->answers(wait);
  }

  void give_up(const Error& error) override {
    tree_->give_up(error);
    watcher_->wake();
  }

  void announce(const Error& error) override {
    tree_->announce(error);
    watcher_->wake();
  }

 private:
  const int rank_, nranks_;
  const Secret secret_;
  const pid_t process_ = getpid();
  std::shared_ptr<Watcher> watcher_;
  std::shared_ptr<Tree> tree_;
  bool watched_ = false;
};

Result<> add_parent(std::vector<TreeLink>& links, const Introduction& in, const Secret& secret, int rank, int nranks,
                    Deadline deadline) {
  if (rank == 0) return {};
  const int parent = tree_parent(rank);
  const Bytes hello = encode(ChildHello{rank, nranks, process_identity()});
  auto fd = connect_proved(in.parent, secret, Purpose::kControl, hello, 0, deadline);
  if (!fd) {
    fd.error().message = fmt::format("cannot connect to rank {} ({}) at {} for the control channel: {}", parent,
                                     in.parent_identity, in.parent.to_string(), fd.error().message);
    fd.error().rank = parent;
    return fd.error();
  }
  links.emplace_back(std::move(*fd), parent, in.parent_identity);
  return {};
}

Error missing_children(std::vector<int> missing, const Error& why) {
  Error e =
      make_error(why.code, "rank(s) {} did not connect for the control channel: {}", rank_list(missing), why.message);
  if (missing.size() == 1) e.rank = missing.front();
  return e;
}

/// In the order of their ranks, whatever the order in which they come; also of those that came when others did not.
Result<> add_children(std::vector<TreeLink>& links, Fd listener, const Secret& secret, int rank, int nranks,
                      Deadline deadline) {
  std::vector<int> missing;
  for (int64_t c = int64_t{rank} * kTreeFanOut + 1; c <= int64_t{rank} * kTreeFanOut + kTreeFanOut && c < nranks; c++)
    missing.push_back(static_cast<int>(c));
  std::map<int, TreeLink> came;
  Acceptor acceptor(std::move(listener), secret, Purpose::kControl);
  Result<> verdict;
  while (!missing.empty()) {
    auto peer = acceptor.next(deadline);
    if (!peer) {
      verdict = missing_children(missing, peer.error());
      break;
    }
    const auto hello = decode_child(peer->hello);
    const auto at = hello ? std::find(missing.begin(), missing.end(), hello->rank) : missing.end();
    if (at == missing.end() || hello->nranks != nranks) continue;  // authentic, but not what the root arranged
    came.emplace(hello->rank, TreeLink(std::move(peer->fd), hello->rank, hello->identity));
    missing.erase(at);
  }
  for (auto& [child, link] : came) links.push_back(std::move(link));
  return verdict;
}

Result<> check_shape(int rank, int nranks) {
  if (nranks < 1 || nranks > kMaxRanks)
    return make_error(twohopInvalidArgument, "nranks={}: expected 1 to {}", nranks, kMaxRanks);
  if (rank < 0 || rank >= nranks)
    return make_error(twohopInvalidArgument, "rank={}: expected 0 to {} (nranks - 1)", rank, nranks - 1);
  return {};
}

}  // namespace

Result<std::unique_ptr<Control>> Control::join(const twohopUniqueId& id, int rank, int nranks, Deadline deadline) {
  if (auto shape = check_shape(rank, nranks); !shape) return shape.error();
  const auto& opts = options();
  if (!opts) return opts.error();
  auto content = decode(id);
  if (!content) return content.error();
  auto watcher = Watcher::instance();
  if (!watcher) return watcher.error();
  auto in = introduce(*content, rank, nranks, opts->socket_ifname, deadline);
  if (!in) return in.error();
  const Secret& secret = content->secret;
  std::vector<TreeLink> links;
  links.reserve(1 + kTreeFanOut);
  if (auto ok = add_parent(links, *in, secret, rank, nranks, deadline); !ok) return ok.error();
  if (auto ok = add_children(links, std::move(in->listener), secret, rank, nranks, deadline); !ok) {
    Tree(rank, nranks, std::move(links)).announce(ok.error());
    return ok.error();
  }
  std::unique_ptr<Control> control =
      std::make_unique<TreeControl>(rank, nranks, secret, std::move(links), std::move(*watcher));
  // Nobody returns before all have their connections.
  if (auto all = control->all_gather({}, deadline); !all) return all.error();
  return Result<std::unique_ptr<Control>>(std::move(control));
}

}  // namespace twohop
