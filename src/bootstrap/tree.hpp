// What does one rank know and do in its communicator's control tree? Shared by the communicator and the watcher.
//
// Leaving: a rank that leaves says goodbye on its links, but goes on relaying failure notices between its neighbours
// (in the watcher thread) until all ranks on the other side of each link have left, or its process ends. A link that
// ends after a goodbye is no failure.
#pragma once

#include <poll.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "bootstrap/standing.hpp"
#include "bootstrap/tree_link.hpp"
#include "bootstrap/watched.hpp"

namespace twohop {

constexpr size_t kMaxGatherBytes = 64 << 10;  // of one rank

class Tree : public Watched {
 public:
  using FailureHandler = std::function<void(const Error&)>;

  /// links: the parent's first (rank 0 has none), then the children's.
  Tree(int rank, int nranks, std::vector<TreeLink> links);

  Result<std::vector<Bytes>> all_gather(std::span<const std::byte> mine, Deadline deadline);

  void set_handler(FailureHandler handler);
  /// That a rank has left before an exchange is a failure too.
  void fail_if_left();
  std::optional<Error> failure();
  /// Floods an error of this rank; the handler is not called for it.
  void announce(const Error& error);
  /// What ranks wait for between two exchanges is in vain: all come to know why. Their next exchange is none the worse.
  void give_up(const Error& error);
  /// Since the last exchange.
  std::optional<Error> given_up();
  /// The rank leaves. Afterwards the handler does not run and will not.
  void leave();

  /// `source` says where this rank stands; called with the tree locked.
  void set_standing(std::function<Standing()> source);
  void ask();
  /// Waits for those that have not come yet. Pre: ask().
  std::vector<std::optional<Standing>> answers(std::chrono::milliseconds wait);

  void append_to(std::vector<pollfd>& polled) override;
  void serve(std::span<const pollfd> polled) override;
  /// Nothing to say or to hear any more: the links can be closed.
  bool finished() override;

 private:
  // all_gather's steps, with the mutex held
  struct Gather {
    std::span<const std::byte> mine;
    bool sent_up = false, sent_down = false;
    Bytes all;
  };
  Result<bool> step(Gather& g);
  void exchange_frames();
  bool awaited(const Gather& g, const TreeLink& link) const;
  bool take_subtree(Gather& g, Bytes& out);
  void send_up(Gather& g);
  void send_down(Gather& g);
  void fail_if_cut_off(const Gather& g);
  Result<std::vector<Bytes>> parse_all(std::span<const std::byte> all) const;
  Error late_ranks(const Gather& g);

  void expect_prompt_reading();
  void read(TreeLink& link);
  void handle(TreeLink& link, Frame frame);
  void end_of(TreeLink& link, const Error& why);
  void fail(Error error, const TreeLink* from);
  void take_given_up(uint32_t exchanges, Error error, const TreeLink* from);
  void pass_on_done();
  void deliver();

  // roll_call's steps, with the mutex held
  void begin_round();
  void answer();
  void take_answer(int rank, const Standing& standing, const TreeLink* from);
  void handle_ask(TreeLink& from);
  void handle_standing(TreeLink& from, const Frame& frame);

  bool has_parent() const { return rank_ > 0; }
  bool is_parent(const TreeLink& link) const { return has_parent() && &link == &links_.front(); }
  std::span<TreeLink> children() { return std::span(links_).subspan(has_parent() ? 1 : 0); }
  size_t max_data_bytes() const { return static_cast<size_t>(nranks_) * (kMaxGatherBytes + 8); }

  const int rank_, nranks_;
  std::mutex mutex_;
  std::vector<TreeLink> links_;
  std::optional<Error> failure_;
  bool deliver_ = false;  // the failure is not ours and the handler has not seen it
  bool left_ = false;
  uint32_t exchanges_ = 0;  // that have been completed
  std::optional<Error> given_up_;
  uint32_t given_up_after_ = 0;  // so many exchanges
  std::function<Standing()> standing_;
  std::vector<std::optional<Standing>> answers_;  // of the last round
  std::chrono::steady_clock::time_point asked_at_{}, said_at_{};
  std::condition_variable answered_;
  std::recursive_mutex handler_mutex_;  // held while the handler runs; it may leave() from within
  FailureHandler handler_;
};

}  // namespace twohop
