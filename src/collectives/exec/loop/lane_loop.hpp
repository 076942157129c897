// The device loop: a group of threads runs one lane of a call, step by step, and blocks wherever the lane has to wait.
// All lanes of a call run at the same time. Written once for the GPU, where the threads are warps of a block, and for
// the host, where tests play them by threads with random delays.
//
// Group: thread(), threads(); sync() (a barrier, with all that was written before it visible after it); scratch();
// pause(turns) between two looks at a word. E: element type of the call.
//
// Memory order. Threads of a group write data, then sync(), then single threads release words at system scope: what the
// barrier ordered before the release is covered by it (causality is transitive). On the other side one thread acquires
// a word and sync() hands that on to its group. docs/gpu.md has the whole argument.
#pragma once

#include "collectives/exec/loop/loop_call.hpp"
#include "device/element/chunk.hpp"

namespace twohop {

template <class E, class Group>
class LaneLoop {
 public:
  TWOHOP_HD LaneLoop(Group& group, const LoopCall& call, uint32_t lane)
      : g_(group), c_(call), lane_(call.lanes[lane]), opens_(lane == 0) {}

  TWOHOP_HD void run() {
    if (!open()) return;
    const bool at_end = run_steps();
    if (!settle() || !at_end) return;
    g_.sync();
    if (g_.thread() == 0) close();
  }

 private:
  TWOHOP_HD bool run_steps() {
    for (int64_t round = 0; round < c_.rounds; ++round)
      for (uint32_t pc = 0; pc < lane_.count; ++pc)
        if (!step(lane_.steps[pc], round)) return false;
    return true;
  }

  // ---- Waiting ----
  /// One thread looks until `condition` holds; false: the call is to end.
  template <class Condition>
  TWOHOP_HD bool wait_until(Condition condition) {
    for (unsigned turns = 0; !condition(); ++turns) {
      if (turns % 64 == 63 && load_relaxed(&c_.report->stop) != 0) return false;
      g_.pause(turns);
    }
    return true;
  }
  /// The leader does it for all; what it has acquired, all may rely on.
  template <class Act>
  TWOHOP_HD uint64_t leader(Act act) {
    uint64_t& said = g_.scratch().said[spoken_++ % 2];
    if (g_.thread() == 0) said = act();
    g_.sync();
    return said;
  }

  // ---- Begin and end ----
  TWOHOP_HD bool open() {
    number_ = leader([&] {
      const uint64_t number = c_.state->finished + 1;
      const bool opened =
          opens_ ? open_call(number) : wait_until([&] { return load_acquire(&c_.state->opened) == number; });
      g_.scratch().places = c_.places;
      g_.scratch().places.half = static_cast<uint32_t>(number & 1);
      return opened ? number : 0;
    });
    return number_ != 0;
  }
  /// The memory half of this call was last used by the call before the last: all ranks of the node must have finished
  /// it.
  TWOHOP_HD bool open_call(uint64_t number) {
    for (int i = 0; i < c_.locals; ++i) {
      const uint64_t* finished = word_of(page_of(c_.boards[i]).finished.value);
      if (!wait_until([&] { return reached(load_acquire(finished) + 2, number); })) return false;
    }
    store_release(&c_.report->started, number);
    for (uint32_t i = 0; i < c_.out_count; ++i) begin(c_.out[i]);
    for (uint32_t i = 0; i < c_.in_count; ++i) begin(c_.in[i]);
    for (int i = 0; i < c_.locals; ++i) {
      CallNotice& notice = page_of(c_.boards_of_me[i]).notices[number & 1];
      notice.signature = c_.signature;
      notice.scale = c_.scale;
      *notice.direct() = c_.direct;
      store_release(word_of(notice.call), number);
    }
    store_release(&c_.state->opened, number);
    return true;
  }
  TWOHOP_HD static void begin(LoopLink& link) {
    link.before_last = link.start;
    link.start = link.posted;
  }

  /// The last lane to end ends the call.
  TWOHOP_HD void close() {
    if (fetch_add(&c_.state->lanes_done, 1) + 1 != c_.lane_count) return;
    // A call that needs nothing of a local rank still waits until that rank makes the same call.
    for (int i = 0; i < c_.locals; ++i)
      if (!wait_until([&] { return notice_is_here(i); }) || !verify_local(i)) return;
    for (uint32_t i = 0; i < c_.out_count; ++i)
      if (!wait_until([&] { return reached(load_acquire(&c_.out_words[i].sent), c_.out[i].posted); })) return;
    if (!wait_for_readers()) return;
    c_.state->lanes_done = 0;
    c_.state->finished = number_;
    for (int i = 0; i < c_.locals; ++i) store_release(word_of(page_of(c_.boards_of_me[i]).finished.value), number_);
    if (c_.launch != 0) store_release(&c_.report->launch, c_.launch);
    store_release(&c_.report->finished, number_);
  }

  /// Nobody reads the user's memory beyond the call: it is the user's again then.
  TWOHOP_HD bool wait_for_readers() {
    for (int i = 0; i < c_.locals; ++i)
      if (direct_of(i) != 0) store_release(word_of(page_of(c_.boards_of_me[i]).read.value), number_);
    for (int i = 0; i < c_.locals && c_.direct != 0; ++i) {
      const uint64_t* read = word_of(page_of(c_.boards[i]).read.value);
      if (!wait_until([&] { return reached(load_acquire(read), number_); })) return false;
    }
    return true;
  }
  /// After the notice is known to be here.
  TWOHOP_HD uint64_t direct_of(int local) const { return *page_of(c_.boards[local]).notices[number_ & 1].direct(); }

  // ---- Calls must match ----
  TWOHOP_HD bool notice_is_here(int local) {
    return load_acquire(word_of(page_of(c_.boards[local]).notices[number_ & 1].call)) == number_;
  }
  /// After the notice is known to be here.
  TWOHOP_HD bool verify_local(int local) {
    const uint64_t theirs = page_of(c_.boards[local]).notices[number_ & 1].signature;
    if (theirs != c_.signature) return fail(LoopFault::kMismatchLocal, local, theirs);
    return local == c_.me || knows_region(local, direct_of(local)) || fail(LoopFault::kUnknownRegion, local, theirs);
  }
  /// What a peer says is an index into a table of addresses.
  TWOHOP_HD bool knows_region(int local, uint64_t direct) const {
    const uint64_t region = (direct >> kDirectOffsetBits) - 1;
    return direct == 0 ||
           (c_.regions != nullptr && region < kMostRegions &&
            c_.regions[region * static_cast<uint64_t>(c_.locals) + static_cast<uint64_t>(local)] != nullptr);
  }
  TWOHOP_HD bool verify_link(uint32_t link) {
    const LoopLinkWords::Tag& tag = c_.in_words[link].tags[number_ % 4];
    if (load_acquire(&tag.call) != number_) return true;  // arrived for an earlier call
    const uint64_t theirs = load_relaxed(&tag.signature);
    return theirs == c_.signature || fail(LoopFault::kMismatchLink, link, theirs);
  }
  TWOHOP_HD bool fail(LoopFault fault, uint64_t who, uint64_t theirs) {
    LoopReport& r = *c_.report;
    if (fetch_add(&c_.state->faults, 1) == 0) {
      r.who = who;
      r.ours = c_.signature;
      r.theirs = theirs;
      r.call = number_;
      store_release(&r.fault, static_cast<uint64_t>(fault));
    }
    store_release(&r.stop, 1);
    return false;
  }

  // ---- Steps ----
  TWOHOP_HD bool step(const BoundStep& s, int64_t round) {
    if (s.kind == StepKind::kCopy) return copy(s, round);
    if (!settle()) return false;
    switch (s.kind) {
      case StepKind::kReduce:
        reduce(s, round);
        return true;
      case StepKind::kSignal:
        signal();
        return true;
      case StepKind::kPut:
        return put(s, round);
      case StepKind::kRelease:
        return leader([&] { return release(s); }) != 0;
      default: {
        const int64_t target = s.target.at(round);
        return target <= 0 || leader([&] { return wait(s, static_cast<uint64_t>(target)); }) != 0;
      }
    }
  }

  TWOHOP_HD bool wait(const BoundStep& s, uint64_t count) {
    switch (s.kind) {
      case StepKind::kSent:
        return wait_until(
            [&] { return reached(load_acquire(&c_.out_words[s.link].sent), c_.out[s.link].start + count); });
      case StepKind::kArrive: {
        const uint64_t wanted = c_.in[s.link].start + count;
        return wait_until([&] { return reached(load_acquire(&c_.in_words[s.link].arrived), wanted); }) &&
               verify_link(s.link);
      }
      default:
        if (!wait_until([&] { return reached(load_acquire(s.counter), tag_of(number_, count)); })) return false;
        if (verified_ >> s.local & 1) return true;
        verified_ |= uint64_t(1) << s.local;
        return verify_local(s.local);
    }
  }

  TWOHOP_HD bool copy(const BoundStep& s, int64_t round) {
    // Who would read the copy reads the input.
    if (c_.direct != 0 && s.dst.space == Space::kWindow && s.srcs[0].space == Space::kInput) return true;
    const Extent extent = g_.scratch().places.output_extent(lane_.channel, round, s);
    if (extent.bytes == 0) return true;
    std::byte* dst = address(s.dst, s, round, extent);
    const std::byte* src = address(s.srcs[0], s, round, extent);
    if (c_.by_engine && on_host(s.dst.space) != on_host(s.srcs[0].space)) return ask_for_copy(dst, src, extent.bytes);
    if (!settle()) return false;
    if (dst != src) element::copy_chunk(g_, dst, src, extent.bytes);
    g_.sync();
    return true;
  }

  // ---- Copies by an engine ----
  TWOHOP_HD bool on_host(Space space) const {
    return space == Space::kWindow ? c_.windows_on_host : space == Space::kInbox && c_.inboxes_on_host;
  }
  /// Copies of a rank are made one after the other, so that a lane waits for its last one only, and before it does
  /// anything else.
  TWOHOP_HD bool ask_for_copy(std::byte* dst, const std::byte* src, uint64_t bytes) {
    const uint64_t asked = leader([&] {
      return c_.queue.push([&](auto free) { return wait_until(free); },
                           [&](PutEntry& e) {
                             e.request = PutRequest::kCopy;
                             e.pieces = 1;
                             e.piece[0] = {src, 0, bytes, dst};
                           });
    });
    if (asked != 0) copying_ = asked;
    return asked != 0;
  }
  /// Until the copies that this lane has asked for are complete. A call that is to end waits too: when the kernel has
  /// ended the memory is the user's. False: they will never be.
  TWOHOP_HD bool settle() {
    if (copying_ == 0) return true;
    const uint64_t wanted = copying_;
    copying_ = 0;
    return leader([&] {
             for (unsigned turns = 0; !reached(load_acquire(c_.queue.taken), wanted); ++turns) {
               if (turns % 64 == 63 && load_acquire(&c_.report->copies_ended) != 0) return false;
               g_.pause(turns);
             }
             return true;
           }) != 0;
  }

  TWOHOP_HD void reduce(const BoundStep& s, int64_t round) {
    const Extent extent = g_.scratch().places.output_extent(lane_.channel, round, s);
    if (extent.bytes == 0) return;
    LoopScratch& scratch = g_.scratch();
    for (uint32_t i = g_.thread(); i < s.srcs.count; i += g_.threads()) {
      scratch.srcs[i] = address(s.srcs[i], s, round, extent);
      if (c_.scaled) scratch.scales[i] = scale_of(s.srcs[i].raw_local);
    }
    g_.sync();
    const element::ChunkSources in{scratch.srcs, c_.scaled ? scratch.scales : nullptr, static_cast<int>(s.srcs.count)};
    element::reduce_chunk<E>(g_, c_.op, address(s.dst, s, round, extent), in, s.final ? c_.divisor : 1, extent.bytes);
    g_.sync();
  }
  TWOHOP_HD Scalar scale_of(int raw_local) const {
    return raw_local < 0 ? c_.one : page_of(c_.boards[raw_local]).notices[number_ & 1].scale;
  }
  TWOHOP_HD std::byte* address(const BoundRef& ref, const BoundStep& s, int64_t round, const Extent& extent) const {
    const CallPlaces& places = g_.scratch().places;
    if (ref.space == Space::kWindow && ref.raw_local >= 0)
      if (const uint64_t direct = direct_of(ref.raw_local); direct != 0)
        return in_region(ref.raw_local, direct) +
               places.extents.extent(Space::kInput, lane_.channel, round, s.shard, static_cast<int>(s.chunk)).offset;
    return places.address(ref, lane_.channel, round, s, extent);
  }
  TWOHOP_HD std::byte* in_region(int local, uint64_t direct) const {
    const uint64_t region = (direct >> kDirectOffsetBits) - 1,
                   offset = direct & ((uint64_t(1) << kDirectOffsetBits) - 1);
    return c_.regions[region * static_cast<uint64_t>(c_.locals) + static_cast<uint64_t>(local)] + offset;
  }

  /// Every data step ended in sync(), so all of the group's writes are covered by each thread's release.
  TWOHOP_HD void signal() {
    const uint64_t tag = tag_of(number_, ++signals_);
    for (int i = static_cast<int>(g_.thread()); i < c_.locals; i += static_cast<int>(g_.threads()))
      store_release(reinterpret_cast<uint64_t*>(c_.boards_of_me[i] + lane_.counter), tag);
  }

  TWOHOP_HD bool put(const BoundStep& s, int64_t round) {
    const uint64_t pieces = leader([&] { return wait_for_slot(s, round) ? find_pieces(s, round) : 0; });
    if (pieces == 0) return false;
    const bool staged_first = c_.staging != nullptr && !lies_on_host(s);
    if (staged_first && !c_.by_engine) stage(s.inbox, pieces);
    return leader([&] { return push_put(s, pieces, staged_first); }) != 0;
  }
  /// What arrived in an inbox in host memory is passed on from there.
  TWOHOP_HD bool lies_on_host(const BoundStep& s) const {
    bool all = c_.inboxes_on_host;
    for (uint32_t i = 0; i < s.srcs.count; ++i) all = all && s.srcs[i].space == Space::kInbox;
    return all;
  }
  TWOHOP_HD bool wait_for_slot(const BoundStep& s, int64_t round) {
    const auto number = static_cast<uint64_t>(s.target.at(round));
    const auto slots = static_cast<uint64_t>(c_.places.put_slots);
    const LoopLink& link = c_.out[s.link];
    const uint64_t must_be_consumed = number < slots ? link.before_last : link.start + number - slots + 1;
    return wait_until_consumed(s.link, must_be_consumed) && (number > 0 || wait_for_inbox(s));
  }
  TWOHOP_HD bool wait_until_consumed(uint32_t link, uint64_t count) {
    if (reached(load_relaxed(&c_.out[link].consumed_seen), count)) return true;
    const uint64_t* consumed = &c_.out_words[link].consumed;
    if (!wait_until([&] { return reached(load_acquire(consumed), count); })) return false;
    store_relaxed(&c_.out[link].consumed_seen, count);
    return true;
  }
  /// What other links have put into the inbox before the last call has been released; in the last call it went to the
  /// other half, and in this one none of them is used.
  TWOHOP_HD bool wait_for_inbox(const BoundStep& s) {
    for (uint32_t i = s.first_sharing; i < s.first_sharing + s.sharing; ++i)
      if (i != s.link && !wait_until_consumed(i, c_.out[i].before_last)) return false;
    return true;
  }
  TWOHOP_HD uint64_t find_pieces(const BoundStep& s, int64_t round) {
    const int n = pieces_of_put(g_.scratch().places, s, lane_.channel, round, c_.frame_chunks, g_.scratch().pieces);
    if (n == 0) fail(LoopFault::kPutTooScattered, s.link, 0);
    return static_cast<uint64_t>(n);
  }
  /// A slot of the staging memory is free when the receiver's slot is: what was consumed has been sent.
  TWOHOP_HD void stage(uint32_t inbox, uint64_t pieces) {
    for (uint64_t i = 0; i < pieces; ++i) {
      const PutPiece& p = g_.scratch().pieces[i];
      if (p.bytes > 0) element::copy_chunk(g_, staged(inbox, p), p.source, p.bytes);
    }
    g_.sync();
  }
  TWOHOP_HD std::byte* staged(uint32_t inbox, const PutPiece& p) const {
    return c_.staging + inbox * 2 * c_.places.inbox_bytes + p.inbox_offset;
  }
  TWOHOP_HD bool push_put(const BoundStep& s, uint64_t pieces, bool staged_first) {
    ++c_.out[s.link].posted;
    return c_.queue.push([&](auto free) { return wait_until(free); },
                         [&](PutEntry& e) {
                           e.request = PutRequest::kPut;
                           e.link = s.link;
                           e.call = number_;
                           e.signature = c_.signature;
                           e.pieces = static_cast<uint32_t>(pieces);
                           for (uint64_t i = 0; i < pieces; ++i) {
                             const PutPiece& p = g_.scratch().pieces[i];
                             std::byte* const at = staged_first ? staged(s.inbox, p) : nullptr;
                             const bool copied = at != nullptr && !c_.by_engine;  // else by the progress thread
                             e.piece[i] = {copied ? at : p.source, p.inbox_offset, p.bytes, copied ? nullptr : at};
                           }
                         }) != 0;
  }
  TWOHOP_HD bool release(const BoundStep& s) {
    ++c_.in[s.link].posted;
    return c_.queue.push([&](auto free) { return wait_until(free); },
                         [&](PutEntry& e) {
                           e.request = PutRequest::kRelease;
                           e.link = s.link;
                         }) != 0;
  }

  Group& g_;
  const LoopCall& c_;
  const LoopLane& lane_;
  const bool opens_;
  uint64_t number_ = 0, signals_ = 0, verified_ = 0;
  uint64_t copying_ = 0;  // the latest copy asked for and not awaited yet, as PutQueue::push names it
  unsigned spoken_ = 0;
};

}  // namespace twohop
