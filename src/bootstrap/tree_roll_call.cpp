// How does a rank learn where all others stand? Its question floods the tree, and so does every answer: to everybody,
// so that ranks that hang together need to ask once.
#include <algorithm>

#include "bootstrap/tree.hpp"

namespace twohop {
namespace {

using Clock = std::chrono::steady_clock;
using Place = Standing::Place;
constexpr std::chrono::seconds kSameRoundFor{5};  // answers that old still serve another rank that asks
constexpr std::chrono::seconds kAnswerOnceIn{1};

}  // namespace

void Tree::set_standing(std::function<Standing()> source) {
  const std::lock_guard lock(mutex_);
  standing_ = std::move(source);
}

void Tree::ask() {
  const std::lock_guard lock(mutex_);
  if (Clock::now() - asked_at_ > kSameRoundFor) {
    begin_round();
    for (TreeLink& link : links_) link.send(FrameType::kAsk, {});
  }
  answer();
}

std::vector<std::optional<Standing>> Tree::answers(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  answered_.wait_for(lock, wait, [this] {
    return std::all_of(answers_.begin(), answers_.end(), [](const auto& a) { return a.has_value(); });
  });
  return answers_;
}

void Tree::begin_round() {
  asked_at_ = Clock::now();
  answers_.assign(static_cast<size_t>(nranks_), std::nullopt);
}

void Tree::answer() {
  if (Clock::now() - said_at_ < kAnswerOnceIn && answers_[static_cast<size_t>(rank_)]) return;
  said_at_ = Clock::now();
  const Standing mine = standing_ ? standing_() : Standing{.place = left_ ? Place::kLeft : Place::kBetweenCalls};
  take_answer(rank_, mine, nullptr);
  for (const TreeLink& link : links_)  // a process that said goodbye and ended says nothing more
    if (!link.open() && link.goodbye_received) take_answer(link.rank(), {.place = Place::kLeft}, nullptr);
}

void Tree::take_answer(int rank, const Standing& standing, const TreeLink* from) {
  if (answers_.empty()) begin_round();
  answers_[static_cast<size_t>(rank)] = standing;
  const Bytes message = encode(rank, standing);
  for (TreeLink& link : links_)
    if (&link != from) link.send(FrameType::kStanding, message);
  answered_.notify_all();
}

void Tree::handle_ask(TreeLink& from) {
  if (Clock::now() - asked_at_ > kAnswerOnceIn) begin_round();
  for (TreeLink& link : links_)
    if (&link != &from) link.send(FrameType::kAsk, {});
  answer();
}

void Tree::handle_standing(TreeLink& from, const Frame& frame) {
  const auto said = decode_standing(frame.payload);
  if (!said || said->first >= nranks_)
    return end_of(from, make_error(twohopInternalError, "a malformed standing on the control channel"));
  take_answer(said->first, said->second, &from);
}

}  // namespace twohop
