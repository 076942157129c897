// What does the root do: collect all ranks of one communicator, then tell each its parent, or all what is wrong.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>

#include "base/log.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/rendezvous_messages.hpp"

namespace twohop {
namespace {

using Clock = std::chrono::steady_clock;

/// After a failure, how long ranks that are late still get its reason.
constexpr std::chrono::seconds kLateRanks{10};

constexpr int kStop = -1;  // in place of a rank, in the watch

struct Waiting {
  Fd fd;
  RankHello hello;
  Deadline answer_by;
};

bool still_connected(int fd) {
  char c;
  const ssize_t n = recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

class Rendezvous {
 public:
  Rendezvous(Fd listener, const Secret& secret, Deadline deadline)
      : watch_(epoll_create1(EPOLL_CLOEXEC)),
        acceptor_(std::move(listener), secret, Purpose::kRendezvous),
        deadline_(deadline) {}
  void run(int stop_fd);

 private:
  bool watch(int fd, uint32_t events, int rank);
  bool stopped();
  void admit(Acceptor::Peer peer);
  void welcome(Acceptor::Peer peer, RankHello hello);
  bool complete();
  void introduce_all();
  void fail_all(Error why);
  void answer(Waiting& rank, const RootAnswer& answer);
  Deadline next_deadline() const;
  void forget_ended();
  std::vector<int> absent() const;
  Error missing_ranks() const;
  Error left_early(const RankHello& hello) const;
  bool over() const { return introduced_ || (failure_ && nranks_ > 0 && answered_ >= nranks_); }

  Fd watch_;  // readable when told to stop, or when a rank that waits has ended
  Acceptor acceptor_;
  Deadline deadline_;
  int nranks_ = 0;                  // what the first rank said
  std::map<int, Waiting> waiting_;  // by rank
  std::optional<Error> failure_;
  int answered_ = 0;
  bool introduced_ = false;
};

bool Rendezvous::watch(int fd, uint32_t events, int rank) {
  epoll_event e{};
  e.events = events;
  e.data.fd = rank;
  return epoll_ctl(watch_.get(), EPOLL_CTL_ADD, fd, &e) == 0;
}

/// What made watch_ readable: true when told to stop, else a rank has left and the rendezvous has failed.
bool Rendezvous::stopped() {
  std::array<epoll_event, 64> events;
  const int n = epoll_wait(watch_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < n; i++) {
    if (events[static_cast<size_t>(i)].data.fd == kStop) return true;
    const auto left = waiting_.find(events[static_cast<size_t>(i)].data.fd);
    if (left == waiting_.end() || failure_) continue;
    const RankHello hello = left->second.hello;
    waiting_.erase(left);
    fail_all(left_early(hello));
  }
  return false;
}

void Rendezvous::run(int stop_fd) {
  // Without the watch, from a lack of descriptors, a rank that leaves is noticed at the deadline only.
  const bool watching = watch_ && (stop_fd < 0 || watch(stop_fd, EPOLLIN, kStop));
  while (!over()) {
    // Those that waited have been answered after a failure, and may go.
    auto peer = acceptor_.next(next_deadline(), watching && !failure_ ? watch_.get() : stop_fd);
    if (peer) {
      admit(std::move(*peer));
      if (!failure_ && complete()) introduce_all();
    } else if (peer.error().code == twohopAborted && watching && !failure_) {
      if (stopped()) return;
    } else if (peer.error().code != twohopTimeout) {
      if (peer.error().code != twohopAborted) fail_all(peer.error());
      return;
    } else {
      forget_ended();
      if (!failure_) fail_all(missing_ranks());
      if (Clock::now() >= deadline_) return;
    }
  }
}

Deadline Rendezvous::next_deadline() const {
  Deadline d = deadline_;
  for (const auto& [rank, w] : waiting_) d = std::min(d, w.answer_by);
  return d;
}

void Rendezvous::admit(Acceptor::Peer peer) {
  auto hello = decode_hello(peer.hello);
  if (!hello) {
    Waiting unknown{std::move(peer.fd), {}, deadline_};
    fail_all(hello.error());
    answer(unknown, {failure_, {}, {}});
  } else {
    welcome(std::move(peer), std::move(*hello));
  }
}

void Rendezvous::welcome(Acceptor::Peer peer, RankHello hello) {
  Waiting w{std::move(peer.fd), std::move(hello), {}};
  w.answer_by = std::min(deadline_, Clock::now() + std::chrono::milliseconds(w.hello.patience_ms));
  const RankHello& h = w.hello;
  if (nranks_ == 0) nranks_ = h.nranks;
  const auto same = waiting_.find(h.rank);
  if (!failure_ && h.nranks != nranks_)
    fail_all(make_error(twohopInvalidUsage,
                        "rank {} ({}) says nranks={}, but a rank before it nranks={}: all ranks must pass the same",
                        h.rank, h.identity, h.nranks, nranks_));
  else if (!failure_ && same != waiting_.end() && still_connected(same->second.fd.get()))
    fail_all(make_error(twohopInvalidUsage,
                        "rank {} joined twice, from {} and from {}: give each process its own rank, and each "
                        "communicator its own unique id",
                        h.rank, same->second.hello.identity, h.identity));
  // The rank that was here before has ended: the others must hear of it, though its successor has come.
  else if (!failure_ && same != waiting_.end())
    fail_all(left_early(same->second.hello));
  if (failure_) {
    answer(w, {failure_, {}, {}});
    return;
  }
  (void)watch(w.fd.get(), EPOLLRDHUP, h.rank);
  waiting_.emplace(h.rank, std::move(w));
}

/// All ranks are here, and none has ended while it waited (if one has, the next round finds out).
bool Rendezvous::complete() {
  return static_cast<int>(waiting_.size()) == nranks_ &&
         std::ranges::all_of(waiting_, [](const auto& w) { return still_connected(w.second.fd.get()); });
}

void Rendezvous::forget_ended() {
  std::erase_if(waiting_, [](const auto& w) { return !still_connected(w.second.fd.get()); });
}

void Rendezvous::introduce_all() {
  for (auto& [rank, w] : waiting_) {
    RootAnswer a;
    if (rank > 0) {
      const RankHello& parent = waiting_.at(tree_parent(rank)).hello;
      a.parent = parent.listener;
      a.parent_identity = parent.identity;
    }
    answer(w, a);
  }
  log_debug("rendezvous: introduced {} ranks", nranks_);
  introduced_ = true;
}

void Rendezvous::fail_all(Error why) {
  if (failure_) return;
  failure_ = std::move(why);
  log_warn("rendezvous failed: {}", failure_->message);
  deadline_ = std::min(deadline_, Clock::now() + kLateRanks);
  for (auto& [rank, w] : waiting_) answer(w, {failure_, {}, {}});
  waiting_.clear();
}

void Rendezvous::answer(Waiting& rank, const RootAnswer& answer) {
  answered_++;
  // A few hundred bytes into an empty send buffer: a rank that can't take them is as good as gone.
  if (auto sent = send_all(rank.fd.get(), encode(answer), Clock::now() + std::chrono::milliseconds(500)); !sent)
    log_debug("rendezvous: rank {} did not take its answer: {}", rank.hello.rank, sent.error().message);
}

std::vector<int> Rendezvous::absent() const {
  std::vector<int> ranks;
  for (int r = 0; r < nranks_; r++)
    if (!waiting_.contains(r)) ranks.push_back(r);
  return ranks;
}

Error Rendezvous::left_early(const RankHello& hello) const {
  Error e = make_error(twohopRemoteError,
                       "rank {} ({}) left before all had joined: it ended, or gave up waiting; its own output says why",
                       hello.rank, hello.identity);
  std::vector<int> others = absent();
  std::erase(others, hello.rank);
  if (!others.empty())
    e.message += fmt::format(". {} of {} ranks had not joined: {}", others.size(), nranks_, rank_list(others));
  e.rank = hello.rank;
  return e;
}

Error Rendezvous::missing_ranks() const {
  const std::vector<int> missing = absent();
  Error e = make_error(twohopTimeout,
                       "{} of {} ranks did not join in time: {} {}. Check that these processes run and can reach the "
                       "root's address; TWOHOP_INIT_TIMEOUT_S sets the time",
                       missing.size(), nranks_, missing.size() == 1 ? "rank" : "ranks", rank_list(missing));
  if (nranks_ == 0) e.message = "no rank joined in time";
  if (const size_t k = acceptor_.unproved(); k > 0)
    e.message += fmt::format(". {} {} did not prove the job's secret (another TWOHOP_JOB_SECRET?)", k,
                             k == 1 ? "connection" : "connections");
  if (missing.size() == 1) e.rank = missing.front();
  return e;
}

}  // namespace

void serve_rendezvous(Fd listener, const Secret& secret, Deadline deadline, int stop_fd) {
  Rendezvous(std::move(listener), secret, deadline).run(stop_fd);
}

}  // namespace twohop
