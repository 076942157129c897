// What does the root do: collect all ranks of one communicator, then tell each its parent, or all what is wrong.
#include <sys/socket.h>

#include <algorithm>
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
      : acceptor_(std::move(listener), secret, Purpose::kRendezvous), deadline_(deadline) {}
  void run(int stop_fd);

 private:
  void admit(Acceptor::Peer peer);
  void welcome(Acceptor::Peer peer, RankHello hello);
  bool complete();
  void introduce_all();
  void fail_all(Error why);
  void answer(Waiting& rank, const RootAnswer& answer);
  Deadline next_deadline() const;
  void forget_ended();
  Error missing_ranks() const;
  bool over() const { return introduced_ || (failure_ && nranks_ > 0 && answered_ >= nranks_); }

  Acceptor acceptor_;
  Deadline deadline_;
  int nranks_ = 0;                  // what the first rank said
  std::map<int, Waiting> waiting_;  // by rank
  std::optional<Error> failure_;
  int answered_ = 0;
  bool introduced_ = false;
};

void Rendezvous::run(int stop_fd) {
  while (!over()) {
    auto peer = acceptor_.next(next_deadline(), stop_fd);
    if (peer) {
      admit(std::move(*peer));
      if (!failure_ && complete()) introduce_all();
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
  if (failure_)
    answer(w, {failure_, {}, {}});
  else
    waiting_.insert_or_assign(h.rank, std::move(w));
}

/// All ranks are here, and none has ended while it waited.
bool Rendezvous::complete() {
  if (static_cast<int>(waiting_.size()) != nranks_) return false;
  forget_ended();
  return static_cast<int>(waiting_.size()) == nranks_;
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

Error Rendezvous::missing_ranks() const {
  std::vector<int> missing;
  for (int r = 0; r < nranks_; r++)
    if (!waiting_.contains(r)) missing.push_back(r);
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
