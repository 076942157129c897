// See flow.hpp. Waiting: a few polls, then yields, then sleep on the completion channels; ends may be more than cores.
#include "flow.hpp"

#include <endian.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>

#include "port_counters.hpp"
#include "timings.hpp"

namespace twohop::verbs_perf {
namespace {

constexpr uint32_t kCreditBit = 1u << 31;
constexpr uint64_t kCreditEvery = kReceiveDepth / 4;
constexpr uint64_t kSlotMask = (uint64_t{1} << 32) - 1;
constexpr int kPollBatch = 32;
constexpr int kSpins = 64, kYields = 192, kSleepMs = 10, kIdleLooksAtLink = 32;
constexpr double kGraceSeconds = 0.5;  // that a failed completion waits for the other end's own words

/// One queue pair's count of messages.
struct Count {
  uint64_t appended = 0, finished = 0;  // sent
  bool closed = false;                  // no more will be appended
  uint64_t received = 0, credited = 0;  // credited: of those sent, seen by the other end
  uint64_t uncredited = 0;              // received, and not told yet
  std::vector<uint64_t> landed;
};

class Flow {
 public:
  Flow(RowEnd& end, ControlLink& link)
      : end_(end),
        row_(end.row()),
        link_(link),
        counts_(end.qps().size()),
        timings_(row_.size),
        patience_(row_.patience_s) {
    if (row_.op == Op::kSend)
      for (Count& c : counts_) c.landed.resize(end.layout().target_slots);
  }

  Result<> run() {
    // Here both ends begin, so that neither waits in the other's time.
    if (auto go = link_.exchange({{"go", true}}, after(patience_)); !go) return go.error();
    start_ns_ = progress_ns_ = now_ns_ = verbs::now_ns();
    while (true) {
      bool moved = false;
      now_ns_ = verbs::now_ns();
      if (auto r = feed(moved); !r) return r;
      if (auto r = poll_all(moved); !r) return r;
      if (auto r = tell_when_done(); !r) return r;
      if (all_done()) break;
      if (moved) {
        idle_ = 0;
        armed_ = false;
        progress_ns_ = now_ns_;
      } else if (auto r = wait(); !r) {
        return r;
      }
    }
    if (auto met = link_.exchange({{"met", true}}, after(patience_)); !met) return met.error();
    end_ns_ = verbs::now_ns();
    return {};
  }

  EndResult result() {
    EndResult r;
    const EndpointCounters& c = end_.counters();
    for (const Count& count : counts_) r.messages += count.finished;
    r.bytes = r.messages * row_.size;
    r.doorbells = c.doorbells;
    r.work_requests = c.work_requests;
    r.signalled_completions = c.signalled_completions;
    r.setup_ms = end_.setup_ms();
    r.register_ms = end_.register_ms();
    r.global_s = static_cast<double>(end_ns_ - start_ns_) * 1e-9;
    if (r.messages == 0) return r;
    r.post_us = static_cast<double>(c.post_ns) * 1e-3 / static_cast<double>(r.messages);
    timings_.fill(r);
    r.stopped_by = stopped_by_;
    return r;
  }

  Verdict verdict() {
    std::vector<Arrivals> arrivals(counts_.size());
    std::vector<uint64_t> finished, theirs = theirs_;
    for (const Count& c : counts_) finished.push_back(c.finished);
    if (row_.op == Op::kAtomic) {
      Verdict words = verify_words(end_.memory(), end_.layout(), row_, end_.end(), theirs);
      const Verdict fetched = verify_fetched(end_.memory(), end_.layout(), row_, 1 - end_.end(), finished);
      return {words.bytes + fetched.bytes, words.wrong + fetched.wrong};
    }
    for (size_t q = 0; q < counts_.size(); ++q) {
      arrivals[q].messages = row_.op == Op::kRead ? finished[q] : theirs[q];
      arrivals[q].landed = counts_[q].landed;
    }
    return verify(end_.memory(), end_.layout(), row_, 1 - end_.end(), arrivals);
  }

 private:
  // ---- Sending ----

  /// Why no further message should begin; empty: go on.
  const char* reason_to_stop() const {
    const double seconds = static_cast<double>(now_ns_ - start_ns_) * 1e-9;
    if (row_.duration_s > 0 && seconds >= row_.duration_s) return "duration";
    if (seconds >= row_.max_seconds) return "time";
    // The lists of this sweep and the last message of each queue pair must fit too.
    const uint64_t ahead = counts_.size() * (static_cast<uint64_t>(row_.batch) + 1) * row_.size;
    if (bytes_ + ahead > row_.max_bytes) return "bytes";
    return "";
  }

  bool may_append(const Count& c, uint64_t n) const {
    if (c.appended - c.finished + n > static_cast<uint64_t>(row_.tx_depth)) return false;
    return !needs_receives(row_.op) || c.appended - c.credited + n <= kReceiveDepth;
  }

  /// One list for each queue pair that has room.
  Result<> feed(bool& moved) {
    if (!end_.sends() || closed_ == counts_.size()) return {};
    const char* stop = reason_to_stop();
    for (size_t q = 0; q < counts_.size(); ++q) {
      Count& c = counts_[q];
      if (c.closed) continue;
      const uint64_t left = row_.duration_s > 0 ? UINT64_MAX : row_.iterations - c.appended;
      // When time is up one more message is sent, signalled, so that those before it are known to be finished.
      const uint64_t n = *stop ? 1 : std::min<uint64_t>(static_cast<uint64_t>(row_.batch), left);
      if (!may_append(c, n)) continue;
      for (uint64_t i = 0; i < n; ++i) append(q);
      if (*stop || n == left) {
        end_.qps()[q].queue.last().wants_done = true;
        c.closed = true;
        ++closed_;
        stopped_by_ = *stop ? stop : "iterations";
      }
      moved = true;
      if (auto posted = post(q); !posted) return posted;
    }
    return {};
  }

  void append(size_t q) {
    RowQp& qp = end_.qps()[q];
    const Layout& layout = end_.layout();
    const size_t slot = counts_[q].appended++ % layout.source_slots;
    const auto here = reinterpret_cast<uintptr_t>(end_.memory().data());
    const uint64_t there = end_.remote_memory().address;
    const uint32_t key = end_.remote_memory().keys[qp.port];
    verbs::Request& r = qp.queue.append();
    r.ends_part = true;
    r.wr.num_sge = 1;
    r.sge = {here + layout.source(q, slot), static_cast<uint32_t>(row_.size), end_.local_key(qp.port)};
    if (row_.inline_bytes > 0) r.wr.send_flags = IBV_SEND_INLINE;
    switch (row_.op) {
      case Op::kWrite:
      case Op::kWriteImm:
        r.wr.opcode = row_.op == Op::kWrite ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
        r.wr.wr.rdma = {there + layout.target(q, slot), key};
        break;
      case Op::kRead:
        r.wr.opcode = IBV_WR_RDMA_READ;
        r.wr.wr.rdma = {there + layout.source(q, slot), key};
        r.sge.addr = here + layout.target(q, slot);
        break;
      case Op::kSend:
        r.wr.opcode = IBV_WR_SEND;
        break;
      case Op::kAtomic:
        r.wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        r.wr.wr.atomic = {there + layout.target(q, 0), 1, 0, key};
        break;
    }
    bytes_ += row_.size;
  }

  Result<> post(size_t q) {
    RowQp& qp = end_.qps()[q];
    timings_.posted(verbs::now_ns());
    if (const int failed = qp.queue.post())
      return system_error(failed, "{}: cannot post to the send queue", end_.describe(qp));
    return {};
  }

  Result<> give_credit(size_t q) {
    Count& c = counts_[q];
    if (c.uncredited < kCreditEvery) return {};
    verbs::Request& r = end_.qps()[q].queue.append();
    r.wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    r.wr.imm_data = htobe32(kCreditBit | static_cast<uint32_t>(c.received & (kCreditBit - 1)));
    r.is_credit = r.wants_done = true;
    c.uncredited = 0;
    return post(q);
  }

  // ---- Completions ----

  Result<> poll_all(bool& moved) {
    ibv_wc found[kPollBatch];
    for (const auto& cq : end_.cqs()) {
      const int n = ibv_poll_cq(cq->get(), kPollBatch, found);
      if (n < 0) return make_error(twohopSystemError, "polling a completion queue failed ({})", n);
      moved |= n > 0;
      for (int i = 0; i < n; ++i)
        if (auto r = handle(found[i]); !r) return r;
    }
    return {};
  }

  Result<> handle(const ibv_wc& wc) {
    const size_t q = verbs::SendQueue::id_of(wc.wr_id);
    if (wc.status != IBV_WC_SUCCESS) return failed(end_.qps()[q], wc);
    if (!verbs::SendQueue::is_receive(wc.wr_id)) return finished(q, wc.wr_id);
    const uint32_t immediate = be32toh(wc.imm_data);
    if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && (immediate & kCreditBit) != 0) {
      Count& c = counts_[q];
      const uint64_t fresh = (immediate - c.credited) & (kCreditBit - 1);
      if (fresh > c.appended - c.credited)
        return make_error(twohopRemoteError, "the other end has seen {} messages more than were sent", fresh);
      c.credited += fresh;
    } else if (auto r = received(q, wc); !r) {
      return r;
    }
    return end_.post_receive(q, wc.wr_id & kSlotMask);
  }

  Result<> received(size_t q, const ibv_wc& wc) {
    Count& c = counts_[q];
    if (wc.byte_len != row_.size)
      return make_error(twohopRemoteError, "a message of {} bytes arrived, expected {}", wc.byte_len, row_.size);
    ++c.received;
    ++c.uncredited;
    if (!c.landed.empty()) c.landed[wc.wr_id & kSlotMask] = c.received;
    return give_credit(q);
  }

  Result<> finished(size_t q, uint64_t wr_id) {
    const uint64_t now = verbs::now_ns();
    uint64_t messages = 0, posted_ns = 0;
    end_.qps()[q].queue.finish(wr_id, [&](const verbs::Request& r) {
      messages += r.ends_part;
      posted_ns = r.posted_ns;
    });
    counts_[q].finished += messages;
    // What waited for room may go now: credits behind messages.
    if (auto r = post_waiting(q); !r || messages == 0) return r;
    timings_.finished(now, posted_ns, messages);
    return {};
  }
  Result<> post_waiting(size_t q) { return end_.qps()[q].queue.empty() ? Result<>() : post(q); }

  /// Opcode and length of a failed completion mean nothing. The other end may know better why.
  Result<> failed(const RowQp& qp, const ibv_wc& wc) {
    for (const Deadline grace = after(kGraceSeconds);;) {
      auto said = link_.receive(grace);
      if (said) continue;
      if (said.error().code == twohopRemoteError) return said.error();
      break;
    }
    const char* advice =
        wc.status == IBV_WC_RETRY_EXC_ERR
            ? "the other end did not acknowledge: is the route between these GIDs open (firewall, VLAN, "
              "wrong -x at one end), is the MTU on the way large enough (-m), are packets lost?"
            : "look at the kernel's log of both hosts";
    return make_error(twohopRemoteError, "{}: {} (status {}, vendor {:#x}); {}", end_.describe(qp),
                      end_.api().wc_status_str(wc.status), static_cast<int>(wc.status), wc.vendor_err, advice);
  }

  // ---- The end, and waiting for it ----

  bool all_sent() const {
    if (!end_.sends()) return true;
    return closed_ == counts_.size() &&
           std::all_of(counts_.begin(), counts_.end(), [](const Count& c) { return c.finished == c.appended; });
  }
  bool all_done() const {
    if (!told_ || theirs_.empty()) return false;
    for (size_t q = 0; q < counts_.size(); ++q)
      if ((needs_receives(row_.op) && counts_[q].received < theirs_[q]) || !end_.qps()[q].queue.idle()) return false;
    return true;
  }

  Result<> tell_when_done() {
    if (told_ || !all_sent()) return {};
    told_ = true;
    nlohmann::json sent = nlohmann::json::array();
    for (const Count& c : counts_) sent.push_back(c.finished);
    if (auto r = link_.send({{"sent", sent}}, after(patience_)); !r) return r;
    return look_at_link();
  }

  Result<> look_at_link() {
    if (!theirs_.empty()) return link_.check_open();  // what comes next is "met", later
    auto message = link_.try_receive();
    if (!message) return message.error();
    if (!*message) return {};
    try {
      (*message)->at("sent").get_to(theirs_);
    } catch (const nlohmann::json::exception& e) {
      return make_error(twohopRemoteError, "{}: {}", link_.peer(), e.what());
    }
    if (theirs_.size() != counts_.size())
      return make_error(twohopRemoteError, "{} counts {} queue pairs, this end {}", link_.peer(), theirs_.size(),
                        counts_.size());
    return {};
  }

  Result<> wait() {
    ++idle_;
    if (idle_ < kSpins) return {};
    if (idle_ % kIdleLooksAtLink == 0 || idle_ > kSpins + kYields)
      if (auto r = look_at_link(); !r) return r;
    if (idle_ <= kSpins + kYields) {
      sched_yield();
      return {};
    }
    if (static_cast<double>(now_ns_ - progress_ns_) * 1e-9 > patience_)
      return make_error(twohopTimeout,
                        "no progress for {:.0f} s (--patience): {} of the messages that were posted are not finished, "
                        "{} {}",
                        patience_, unfinished(), link_.peer(), theirs_.empty() ? "is still busy" : "is done");
    return sleep();
  }
  uint64_t unfinished() const {
    uint64_t n = 0;
    for (const Count& c : counts_) n += c.appended - c.finished;
    return n;
  }

  /// Arms the channels, looks once more, then sleeps: what came before the arming makes no event.
  Result<> sleep() {
    if (!armed_) {
      for (const auto& cq : end_.cqs()) (void)ibv_req_notify_cq(cq->get(), 0);
      armed_ = true;
      return {};
    }
    std::vector<pollfd> fds;
    if (theirs_.empty()) fds.push_back({link_.fd(), POLLIN, 0});
    for (const RowPort& port : end_.ports()) fds.push_back({port.rail->channel->get()->fd, POLLIN, 0});
    ::poll(fds.data(), fds.size(), kSleepMs);
    for (const RowPort& port : end_.ports()) drain(*port.rail);
    armed_ = false;
    return {};
  }
  void drain(const verbs::Rail& rail) const {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    while (end_.api().get_cq_event(rail.channel->get(), &cq, &context) == 0) end_.api().ack_cq_events(cq, 1);
  }

  RowEnd& end_;
  const RowSpec& row_;
  ControlLink& link_;
  std::vector<Count> counts_;
  std::vector<uint64_t> theirs_;  // messages that the other end has sent, by queue pair; empty: it is not done
  Timings timings_;
  const double patience_;
  size_t closed_ = 0;
  bool told_ = false, armed_ = false;
  int idle_ = 0;
  const char* stopped_by_ = "";
  uint64_t bytes_ = 0;
  uint64_t start_ns_ = 0, end_ns_ = 0, now_ns_ = 0, progress_ns_ = 0;
};

}  // namespace

Result<EndResult> run_flow(RowEnd& end, ControlLink& link) {
  const CounterShot before(end);
  Flow flow(end, link);
  if (auto ran = flow.run(); !ran) {
    Error error = ran.error();
    const CounterShot now(end);
    const std::string moved = trouble(end, before, now);
    error.message += fmt::format(" [counters of trouble that moved: {}]", moved);
    return error;
  }
  const CounterShot after(end);
  EndResult result = flow.result();
  add_counters(end, before, after, result);
  const Verdict verdict = flow.verdict();
  result.verified_bytes = verdict.bytes;
  result.wrong_bytes = verdict.wrong;
  return result;
}

}  // namespace twohop::verbs_perf
