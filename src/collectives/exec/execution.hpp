// Execution: runs one call's lanes. Every lane advances until it blocks; nothing here waits, allocates or logs.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/exec/bound_schedule.hpp"
#include "collectives/exec/call.hpp"
#include "collectives/exec/call_places.hpp"
#include "collectives/exec/node_group.hpp"
#include "collectives/exec/registrations.hpp"
#include "collectives/exec/trace.hpp"
#include "collectives/plan/layout.hpp"
#include "collectives/plan/model/choice.hpp"

namespace twohop {

/// What an execution works on; owned by the communicator.
struct ExecutionContext {
  const Cluster* cluster = nullptr;
  int rank = 0;
  NodeGroup* node = nullptr;
  Endpoint* endpoint = nullptr;   // null on a single node
  std::vector<LinkTable> tables;  // of the node's ranks
  const Registrations* registrations = nullptr;
  LayoutLimits limits;
  Depths depths;
  Isa isa = Isa::kScalar;
  Trace* trace = nullptr;  // null: off
};

class Execution {
 public:
  explicit Execution(ExecutionContext context);

  /// Begins call number `number` (they count from 1 and never skip).
  /// `choice`: the same on all ranks; chunk and channels count as far as the context's limits allow.
  void start(const Call& call, const Choice& choice, uint64_t number);

  /// Puts that read the user's memory, since the beginning.
  uint64_t direct_puts() const { return direct_puts_; }

  enum class Progress : uint8_t { kNothing, kSome, kDone };
  /// The error is a mismatch between ranks or a lost peer.
  Result<Progress> progress();

  /// For hang reports, now and then while nothing moves: notes which lanes still stand where they stood.
  void look_at_lanes();
  /// Every lane that is not at its end: its step, for whom it waits and since when. Lines of a table.
  std::string hang_table() const;
  /// What the first waiting lane waits for, in words, and which rank that is (-1: none).
  std::string where_it_waits() const;
  int waits_for() const;

 private:
  struct Lane {
    const std::vector<BoundStep>* steps = nullptr;
    // What the step that blocks the lane waits for; not known: null. Most lanes of a sweep stand, and looking at this
    // is all that they cost then.
    const uint64_t* awaited = nullptr;
    uint64_t awaited_count = 0;
    std::atomic<uint64_t>* counter = nullptr;
    size_t pc = 0;
    int64_t round = 0;
    uint64_t signals = 0;
    uint16_t channel = 0, number = 0;
    uint64_t blocked_since_ns = 0;  // for the trace; 0: not blocked
    // For hang reports.
    size_t seen_pc = 0;
    int64_t seen_round = -1;
    std::chrono::steady_clock::time_point still_since{};
  };
  /// A link, and its puts when the call before this one began, and when this one did. Calls that do not use the link do
  /// not touch it, and have put nothing.
  template <class Link>
  struct LinkEnd {
    const Link* link = nullptr;
    uint64_t before_last = 0, now = 0, call = 0;
    void begin(uint64_t number, uint64_t puts) {
      before_last = call + 1 == number ? now : puts;
      now = puts;
      call = number;
    }
  };
  enum class Outcome : uint8_t { kBlocked, kCheap, kMovedData };
  /// Sweeps that find nothing before it is asked whether ranks are gone or make another call. They are what small calls
  /// wait with; by default a rank that sleeps has passed them.
  static constexpr uint32_t kSweepsBeforeLook = 16;

  bool is_small(const Call& call, const Choice& choice) const;
  void set_lanes();
  Result<Progress> progress_small();
  void show_input();
  void fold_inputs();
  int first_absent() const;
  const BoundSchedule& schedule_for(const Algorithm& algorithm, const Call& call);
  bool sends_directly(const Call& call) const;
  void open();
  static bool stands(const Lane& lane);
  static bool await(Lane& lane, const uint64_t* word, uint64_t count);
  bool advance(Lane& lane);
  Outcome step(Lane& lane, const BoundStep& s);
  Outcome traced_step(Lane& lane, const BoundStep& s);
  void trace_call();
  void trace_small(Trace::Kind kind, uint64_t begin_ns, uint64_t bytes);
  bool wait_is_over(Lane& lane, const BoundStep& s);
  bool inbox_is_free(const BoundStep& s) const;
  bool put(Lane& lane, const BoundStep& s);
  void copy(const Lane& lane, const BoundStep& s);
  void reduce(const Lane& lane, const BoundStep& s);
  bool sources_sent() const;
  void finish();

  bool verify_local(int local);
  bool verify_in_link(size_t link);
  void verify_all();
  bool all_local_verified();
  void look_for_departed();
  void departed(int rank);
  void mismatch(int rank, uint64_t theirs);
  int blocking_rank(const Lane& lane) const;
  std::string what_it_waits_for(const Lane& lane) const;
  const Lane* first_waiting() const;
  int slowest_of_node() const;

  ExecutionContext c_;
  const Algorithm* one_shot_;
  std::map<std::tuple<const Algorithm*, Collective, int, bool>, BoundSchedule> schedules_;
  uint64_t direct_puts_ = 0;

  // The current call.
  Call call_;
  uint64_t number_ = 0;
  uint64_t signature_ = 0;
  const BoundSchedule* schedule_ = nullptr;
  Layout layout_;
  CallPlaces places_;
  uint64_t half_ = 0;  // 0 or 1
  bool opened_ = false;
  bool small_ = false;  // without lanes (execution_small.cpp)
  std::vector<Lane> lanes_;
  size_t lanes_left_ = 0;
  uint64_t opened_at_ns_ = 0;  // for the trace
  bool signalled_ = false;
  ReduceFn reduce_ = nullptr;
  bool scaled_ = false;
  uint64_t divisor_ = 1;
  size_t element_bytes_ = 1;
  uint64_t unverified_ = 0;            // a bit for each rank of the node whose notice has not been compared
  std::vector<LinkEnd<OutLink>> out_;  // by number of the link
  std::vector<LinkEnd<InLink>> in_;
  size_t out_used_ = 0, in_used_ = 0;  // the links of the call's channels: these first ones
  uint32_t empty_sweeps_ = 0;          // since something moved
  std::optional<Error> error_;
};

}  // namespace twohop
