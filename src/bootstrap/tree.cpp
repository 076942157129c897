// How do failures and goodbyes travel through the control tree? all_gather is in tree_gather.cpp.
#include "bootstrap/tree.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "bootstrap/rendezvous_messages.hpp"

namespace twohop {
namespace {

constexpr std::chrono::seconds kLostHostAfter{8};

Error lost(const TreeLink& link, const Error& why) {
  Error e = make_error(twohopRemoteError,
                       "rank {} ({}) was lost: its process ended or its host is unreachable ({}). All calls of this "
                       "communicator fail; see that rank's own output for the cause",
                       link.rank(), link.identity(), why.message);
  e.rank = link.rank();
  e.scope = Scope::kCommunicator;
  e.sys_errno = why.sys_errno;
  return e;
}

Error reported(int rank, Error error) {
  error.message = fmt::format("rank {} ({}) reports: {}", rank, process_identity(), error.message);
  if (error.rank < 0) error.rank = rank;
  return error;
}

}  // namespace

Tree::Tree(int rank, int nranks, std::vector<TreeLink> links)
    : rank_(rank), nranks_(nranks), links_(std::move(links)) {}

void Tree::set_handler(FailureHandler handler) {
  {
    const std::lock_guard handler_lock(handler_mutex_);
    handler_ = std::move(handler);
  }
  const std::lock_guard lock(mutex_);
  expect_prompt_reading();
}

/// From now on the watcher reads, on every rank, so bytes that stay unacknowledged mean a lost host.
void Tree::expect_prompt_reading() {
  for (TreeLink& link : links_)
    if (link.open()) fail_when_unacknowledged(link.fd(), kLostHostAfter);
}

std::optional<Error> Tree::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Tree::announce(const Error& error) {
  const std::lock_guard lock(mutex_);
  fail(reported(rank_, error), nullptr);
}

void Tree::give_up(const Error& error) {
  const std::lock_guard lock(mutex_);
  take_given_up(exchanges_, reported(rank_, error), nullptr);
}

std::optional<Error> Tree::given_up() {
  const std::lock_guard lock(mutex_);
  return given_up_after_ == exchanges_ ? given_up_ : std::nullopt;
}

/// The news may come together with the end of the exchange before: it says how many the rank that gives up has
/// completed.
void Tree::take_given_up(uint32_t exchanges, Error error, const TreeLink* from) {
  if (given_up_ && given_up_after_ >= exchanges) return;
  given_up_ = std::move(error);
  given_up_after_ = exchanges;
  Writer w;
  w.u32(exchanges);
  write_error(w, *given_up_);
  for (TreeLink& link : links_)
    if (&link != from) link.send(FrameType::kGivenUp, w.bytes());
}

void Tree::leave() {
  {
    const std::lock_guard handler_lock(handler_mutex_);
    handler_ = nullptr;
  }
  const std::lock_guard lock(mutex_);
  left_ = true;
  standing_ = nullptr;
  expect_prompt_reading();
  if (failure_) return;
  for (TreeLink& link : links_) link.send(FrameType::kGoodbye, {});
  pass_on_done();
}

void Tree::append_to(std::vector<pollfd>& polled) {
  const std::lock_guard lock(mutex_);
  for (const TreeLink& link : links_)
    polled.push_back({link.fd(), static_cast<short>(link.pending() ? POLLIN | POLLOUT : POLLIN), 0});
}

void Tree::serve(std::span<const pollfd> polled) {
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < links_.size(); i++) {
      if (polled[i].revents == 0) continue;
      if (polled[i].revents & POLLOUT) links_[i].flush();
      read(links_[i]);
    }
    pass_on_done();
  }
  deliver();
}

bool Tree::finished() {
  const std::lock_guard lock(mutex_);
  return left_ && std::all_of(links_.begin(), links_.end(), [this](const TreeLink& l) {
           return !l.open() || (!l.pending() && (failure_ || (l.done_sent && l.done_received)));
         });
}

void Tree::read(TreeLink& link) {
  while (link.open()) {
    auto frame = link.next_frame(max_data_bytes());
    if (!frame) return end_of(link, frame.error());
    if (!*frame) return;
    handle(link, std::move(**frame));
  }
}

void Tree::handle(TreeLink& link, Frame frame) {
  switch (frame.type) {
    case FrameType::kGather:
    case FrameType::kAll: {
      const bool expected = is_parent(link) == (frame.type == FrameType::kAll) && !link.data;
      if (!expected) return end_of(link, make_error(twohopInternalError, "unexpected data on the control channel"));
      link.data = std::move(frame.payload);
      return;
    }
    case FrameType::kFailure: {
      Reader r(frame.payload);
      Error e = read_error(r);
      if (!r.complete()) return end_of(link, make_error(twohopInternalError, "a malformed failure notice"));
      deliver_ = deliver_ || !failure_;
      return fail(std::move(e), &link);
    }
    case FrameType::kGivenUp: {
      Reader r(frame.payload);
      const uint32_t exchanges = r.u32();
      Error e = read_error(r);
      if (!r.complete())
        return end_of(link, make_error(twohopInternalError, "a malformed notice that a rank gives up"));
      return take_given_up(exchanges, std::move(e), &link);
    }
    case FrameType::kGoodbye:
      link.goodbye_received = true;
      return;
    case FrameType::kAsk:
      return handle_ask(link);
    case FrameType::kStanding:
      return handle_standing(link, frame);
    case FrameType::kDone:
      link.goodbye_received = link.done_received = true;
      return;
  }
}

/// The connection is gone, or unusable.
void Tree::end_of(TreeLink& link, const Error& why) {
  const Error notice = lost(link, why);
  link.close();
  link.done_received = true;  // nobody to relay to on that side any more
  if (failure_ || link.goodbye_received) return;
  log_debug("{}", notice.message);
  deliver_ = true;
  fail(notice, &link);
}

/// Keeps the first failure and tells everybody but the one who told us.
void Tree::fail(Error error, const TreeLink* from) {
  if (failure_) return;
  error.scope = Scope::kCommunicator;
  failure_ = std::move(error);
  Writer w;
  write_error(w, *failure_);
  for (TreeLink& link : links_)
    if (&link != from) link.send(FrameType::kFailure, w.bytes());
}

/// Says kDone on each link behind which, seen from there, everybody has left.
void Tree::pass_on_done() {
  if (!left_ || failure_) return;
  for (TreeLink& to : links_) {
    if (!to.open() || to.done_sent) continue;
    if (!std::all_of(links_.begin(), links_.end(), [&](const TreeLink& l) { return &l == &to || l.done_received; }))
      continue;
    to.send(FrameType::kDone, {});
    to.done_sent = true;
  }
}

void Tree::deliver() {
  const std::lock_guard handler_lock(handler_mutex_);
  std::optional<Error> error;
  {
    const std::lock_guard lock(mutex_);
    if (deliver_) error = failure_;
    deliver_ = false;
  }
  if (!error || !handler_) return;
  const FailureHandler handler = std::exchange(handler_, nullptr);
  handler(*error);
}

}  // namespace twohop
