// The verbs endpoint: rails, the queue pairs to each peer, and how links are laid over them. Setup is in
// verbs_connect.cpp and verbs_paths.cpp, sending in verbs_datapath.cpp, completions in verbs_completions.cpp, the
// socket beside the queue pairs and the end in verbs_control.cpp, what is said about failures in verbs_diagnosis.cpp,
// what the devices say of the rails in verbs_rail_status.cpp.
#pragma once

#include <deque>
#include <optional>

#include "transport/endpoint.hpp"
#include "transport/tcp/tcp_pairs.hpp"
#include "transport/verbs/verbs_exchange.hpp"
#include "transport/verbs/verbs_failover.hpp"
#include "transport/verbs/verbs_load_plan.hpp"
#include "transport/verbs/verbs_rail.hpp"
#include "transport/verbs/verbs_reach.hpp"
#include "transport/verbs/verbs_send_queue.hpp"
#include "transport/verbs/verbs_wire.hpp"

namespace twohop::verbs {

struct VerbsConfig {
  std::string name = "verbs";  // what the endpoint is called
  std::string library;         // kSystemLibrary or a file
  RailWish rails;
  RcTuning tuning;  // timeout 0: by the number of rails
  int timeout_stagger = 1;
  size_t qps_per_connection = 1;
  bool split = false;  // a put is cut over all its queue pairs
  SendRules rules;
  uint64_t probe_ns = 1'000'000'000;  // how long after its failure a rail is tried again; then twice as long, ...
};

/// A connected queue pair.
struct Qp {
  QueuePair pair;
  ConnectionPlan plan;
  size_t peer = 0, rail = 0;
  SendQueue queue;
  std::vector<ibv_recv_wr> receives;  // a list to post again and again
  bool inline_tags = false;
  uint32_t credits_left = 0;      // that may be appended; the rest of the send queue is for puts
  uint32_t credit_threshold = 1;  // owed on all its links together, at which credits are due
  uint32_t consumed = 0;          // receives used since the last list
  std::vector<size_t> owed = {};  // in links whose credit goes over this queue pair
  bool owes_more = false;         // than when it was last asked whether credits are due
  bool dirty = false;             // has something to post, or owes credits
  bool dead = false;              // a completion failed, or its path is not up: nothing is posted
  uint32_t receive_depth = 0;     // receives posted or used
  bool proven = false;            // a request was acknowledged: the addresses are right
  uint64_t seen_finished = 0;     // requests, when last looked at
  uint64_t still_since_ns = 0;    // since then no completion that was due; 0: none was due
};

/// A rail here joined to a rail of the peer. The same path has the same number at both ends.
struct Path {
  size_t local_rail = 0, remote_rail = 0;
  size_t local_gid = 0, remote_gid = 0;  // of the rails' candidates
  Reach reach = Reach::kNone;
};

inline bool same_rails(const Path& a, const Path& b) {
  return a.local_rail == b.local_rail && a.remote_rail == b.remote_rail;
}

/// Another rank with which this one shares links.
struct Peer {
  int rank = -1;
  std::string address;
  Fd socket;
  std::vector<OutLink*> out;  // by (channel, tag): the numbers of the wire
  std::vector<InLink*> in;
  std::vector<Path> paths, home;        // now, and as they were made
  std::vector<PathState> states;        // by path
  std::vector<OfferedRail> rails;       // theirs
  std::vector<uint32_t> keys;           // of their inboxes; see Offer
  uint64_t usable = ~uint64_t{0};       // their rails, as they last said; bits
  uint64_t told_usable = ~uint64_t{0};  // ours, as last told
  size_t first_qp = 0, qps_per_path = 1;
  uint64_t immediates_sent = 0, immediates_received = 0;
  std::optional<uint64_t> goodbye;  // it has said so: how many immediates it had sent
  bool left = false;                // and all of them are here
  bool said_goodbye = false;
  bool closed = false;                   // its socket is at its end
  bool ended = false;                    // it has said that its endpoint is dead
  std::vector<std::byte> input, output;  // of its socket: not whole yet, and not sent yet
};

/// Where the memory of an out link is: at the peer, by path, and here.
struct OutPlace {
  size_t peer = 0;
  uint16_t number = 0;
  std::vector<size_t> qps;  // in qps_
  uint64_t inbox_address = 0, tag_address = 0;
  size_t first_key = 0;                        // in Peer::keys
  std::vector<uint32_t> inbox_keys, tag_keys;  // by entry of `qps`
  TagSlot* tags = nullptr;                     // kMaxPutsInFlight of them, sources of the tag writes
  std::optional<CallTag> last_tag;
  std::array<uint8_t, kMaxPutsInFlight> parts_left{};  // of a put, until it is sent
  uint64_t credited = 0;                               // puts that the peer has released; `consumed` waits for `sent`
};

/// Parts of a put that came by a queue pair which has been replaced since; see carrier_of().
struct EarlierParts {
  uint64_t put = 0;  // from 1
  size_t qp = 0;     // in qps_
  std::array<uint64_t, kMaxParts / 64> parts{};
  std::shared_ptr<const Carrier> by;
};

struct InPlace {
  size_t peer = 0;
  uint16_t number = 0;
  size_t credit_qp = 0;
  const TagSlot* tags = nullptr;  // written by the peer
  struct Slot {
    std::array<uint64_t, kMaxParts / 64> seen{};
    uint8_t count = 0, parts = 0;  // parts 0: not known yet
    bool tagged = false;
  };
  std::array<Slot, kMaxPutsInFlight> slots;
  std::vector<EarlierParts> earlier;  // of puts that were not released then
  uint64_t credited = 0;              // releases told to the peer
  bool is_owed = false;
};

class VerbsEndpoint final : public Endpoint {
 public:
  VerbsEndpoint(int rank, VerbsConfig config, std::unique_ptr<tcp::PairConnector> connector, std::vector<Rail> rails,
                Fd epoll, Fd ready, Fd attention);

  const char* name() const override { return config_.name.c_str(); }
  int default_channels() const override { return 16; }  // docs/performance.md has puts per doorbell by channels
  Bytes address() const override { return address_; }
  Result<> register_memory(std::span<std::byte> memory) override;
  Result<std::string> register_gpu_memory(const GpuRegion& region, bool keep) override;
  Result<> register_user_memory(std::span<std::byte> memory) override;
  void deregister_user_memory(std::span<std::byte> memory) override;
  Result<> connect(std::vector<OutLink> out, std::vector<InLink> in, std::span<const Bytes> all_addresses,
                   Deadline deadline, int stop_fd) override;
  OutLink& out(size_t i) override { return out_[i]; }
  InLink& in(size_t i) override { return in_[i]; }

  void put(size_t out_link, const CallTag& tag, std::span<const PutRun> runs) override;
  void release(size_t in_link) override;
  Result<> flush() override;
  void limit_batch(uint32_t requests) override;
  Result<bool> poll() override;
  bool output_pending() const override;
  void wait_for(std::vector<pollfd>& fds) override;
  Result<> drain(Deadline deadline) override;
  Carrier carrier_of(size_t in_link, uint64_t put, uint64_t bytes, uint64_t begin, uint64_t end) const override;
  int attention_fd() const override { return peers_.empty() ? -1 : attention_.get(); }
  bool serve_between_calls() override;
  EndpointCounters counters() const override { return counters_; }
  std::vector<RailStatus> rail_status() const override;
  std::vector<size_t> rails_of(size_t out_link) const override;
  std::vector<int> own_rails() const override;

  const std::vector<Rail>& rails() const { return rails_; }

 private:
  friend struct EndpointAccess;  // tests/fuzz: a peer that says what it likes
  static constexpr int kPollBatch = 32;

  // Setup.
  Result<> connect_all(std::span<const Bytes> all_addresses, Deadline deadline, int stop_fd);
  Result<> make_peers(std::span<const Bytes> all_addresses, Deadline deadline, int stop_fd);
  Result<> prepare_memory();
  Result<MemoryRegion> register_on(Rail& rail, std::span<std::byte> memory);
  template <class Register>
  Result<> register_on_all_rails(Register one, bool keep);
  Offer make_offer(const Peer& p) const;
  Result<> accept_offer(Peer& p, const Offer& theirs);
  Result<> check_paths(const Peer& p) const;
  Result<> make_queues();
  Result<std::shared_ptr<CompletionQueue>> make_completion_queue(size_t rail, size_t entries);
  size_t entries_of(const Peer& p, size_t number) const;
  Result<> make_qp(size_t peer_index, size_t number);
  Result<> prepare_qp(Qp& qp, size_t number, const std::shared_ptr<CompletionQueue>& cq);
  Result<> start_qp(Qp& qp, const QpRow& row);
  ConnectionPlan plan_connection(const Peer& p, size_t number) const;
  ConnectionPlan plan_way(const Peer& p, const Path& path, size_t number) const;
  struct QpLoad {
    size_t receives = 0, puts = 0, credits = 0;  // requests that may be outstanding at once
  };
  QpLoad load_of(const Peer& p, size_t number) const;
  uint32_t credit_threshold(const Peer& p, size_t number) const;
  std::vector<size_t> qps_of(const Peer& p, uint16_t channel) const;
  Result<> connect_qps(Peer& p, Deadline deadline);
  Result<> modify(Qp& qp, const Transition& t, const char* to) const;
  Result<> watch_everything();
  void place_links(Peer& p, size_t peer_index, const Offer& theirs);
  std::vector<std::vector<std::string>> users_of_rails() const;
  std::string describe_path(const Peer& p, const Path& path) const;
  void print_load_plan() const;
  bool is_home(const Peer& p, size_t rail) const;
  const MemoryRegion* find_region(const Rail& rail, const void* at, size_t bytes) const;

  // Sending.
  void append_part(OutPlace& place, OutLink& link, std::span<const PutRun> runs, size_t qp_entry, Immediate immediate,
                   uint64_t begin, uint64_t end);
  void append_tag(OutPlace& place, size_t qp_entry, size_t slot, const CallTag& tag);
  void fill_source(Request& r, const Qp& qp, const void* source, uint64_t bytes);
  void append_credits(Qp& qp, bool all);
  bool credits_due(const Qp& qp) const;
  void mark_dirty(size_t qp);
  Result<> push(bool idle);
  bool needs_more(const Peer& p) const;
  Result<> post(Qp& qp);

  // Completions.
  Result<bool> poll_queue(ibv_cq* cq, size_t rail);
  Result<bool> handle(const ibv_wc& wc);
  Result<bool> finish_sends(Qp& qp, uint64_t wr_id);
  Result<bool> receive(Qp& qp, uint32_t immediate);
  Result<bool> receive_put(Peer& p, const Immediate& i);
  Result<bool> receive_credit(Peer& p, const Immediate& i);
  bool count_arrivals(size_t in_link);
  void consume(OutLink& link, const OutPlace& place);
  Result<> replenish(Qp& qp);
  Result<> post_receives(Qp& qp);
  Result<bool> failed(Qp& qp, const ibv_wc& wc);

  // The socket beside the queue pairs, and the end.
  Result<bool> serve_events();
  Result<bool> serve_socket(Peer& p);
  Result<bool> take_messages(Peer& p);
  Result<bool> accept_control(Peer& p, ControlKind kind, uint64_t immediates, const Payload& payload);
  Result<bool> accept_goodbye(Peer& p, uint64_t immediates);
  bool settle_goodbye(Peer& p);
  void read_async_events(Rail& rail);
  Result<> watch_queues();
  void drain_channel(Rail& rail);
  Result<> say_goodbye(Peer& p, Deadline deadline);
  Result<> progress_until(bool (VerbsEndpoint::*done)() const, Deadline deadline);
  void log_totals() const;
  bool is_finished(const Qp& qp) const;
  void append_drain_marker(size_t qp);
  bool all_consumed() const;
  bool all_finished() const;
  Error unconsumed() const;

  // Rails that die and come back: verbs_failover.cpp decides, verbs_retire.cpp ends the old queue pairs,
  // verbs_reconnect.cpp makes the new ones, verbs_probe.cpp tries rails.
  bool another_way(const Peer& p, size_t path) const;
  std::optional<Path> choose(const Peer& p, size_t path, bool only_usable) const;
  std::vector<Path> ways(const Peer& p) const;
  bool is_usable(const Peer& p, const Path& way) const;
  uint64_t usable_rails() const;
  size_t users_of(size_t rail) const;
  Result<> look_after_paths();
  Result<> look_after(Peer& p, size_t path);
  Result<> look_after_rails();
  Result<> leave_down_rail(Peer& p, size_t path);
  Error port_down(const Peer& p, size_t path) const;
  Result<> take_down(Peer& p, size_t path, std::optional<Error> cause, bool planned);
  void warn_of_dead_rail(const Peer& p, size_t path, const Error& cause);
  void end_outage(Rail& rail);
  bool is_drained(const Peer& p, size_t path) const;
  Result<> retire(Peer& p, size_t path);
  void keep_carriers(Peer& p, size_t path);
  HeldMessage held(const Peer& p, size_t path) const;
  Result<> check_held(const Peer& p, const HeldMessage& m) const;
  void take_as_sent(Peer& p, size_t path);
  void rebuild(Peer& p, size_t path);
  void requeue(Peer& p, size_t path, Qp& qp, size_t number);
  void reissue_part(const Qp& qp, std::span<SendQueue::Unfinished> part, size_t number);
  bool is_held(const HeldMessage& theirs, const Request& last) const;
  void drop_credit(Peer& p, const SendQueue::Unfinished& u);
  void count_part_sent(const Request& last);
  void owe_again(Peer& p, Qp& qp, const HeldMessage& theirs);
  Result<> find_way(Peer& p, size_t path);
  Result<> make_way(Peer& p, size_t path, const Path& way);
  Result<> make_pairs(Peer& p, size_t path);
  void drop_pairs(Peer& p, size_t path);
  ConnectMessage connect_message(const Peer& p, size_t path) const;
  Result<> up(Peer& p, size_t path);
  Result<> tell(Peer& p, ControlKind kind, const Payload& payload);
  Result<> push_output(Peer& p, Deadline deadline);
  void tell_the_end(const Error& cause);
  Result<> accept_down(Peer& p, const Payload& payload);
  Result<> accept_held(Peer& p, const Payload& payload);
  Result<> accept_connect(Peer& p, const Payload& payload);
  Result<> accept_accept(Peer& p, const Payload& payload);
  Result<> accept_refuse(Peer& p, const Payload& payload);
  Result<> accept_go(Peer& p, const Payload& payload);
  Result<> accept_rails(Peer& p, const Payload& payload);
  Result<> accept_end(Peer& p, const Payload& payload);
  Result<> accept_probe(Peer& p, const Payload& payload);
  Result<> accept_probe_reply(Peer& p, const Payload& payload);
  PathState* state_of(Peer& p, const PathEpoch& at);
  bool leads(const Peer& p) const { return rank_ < p.rank; }
  bool in_trouble() const;
  bool is_displaced(const Peer& p, size_t path) const { return !same_rails(p.paths[path], p.home[path]); }
  Result<> try_home(Peer& p, size_t path);
  Result<> start_probe(Peer& p, size_t path);
  Result<Probe> make_probe(const Peer& p, size_t path) const;
  Result<> connect_probe(Probe& probe, size_t rail, const QpRow& row) const;
  void give_probe_up(PathState& state);
  Result<> change(ibv_qp* qp, const Rail& rail, const Transition& t) const;

  // Failures.
  Error die(Error e);
  Error about(const Peer& p, twohopResult_t code, std::string message) const;
  Error violation(const Peer& p, const std::string& what) const;
  Error closed_early(const Peer& p) const;
  Error left_early(const Peer& p) const;
  Error describe_failure(const Qp& qp, ibv_wc_status status, uint32_t vendor, bool last);
  std::string describe(const Qp& qp) const;
  const Path& path_of(const Qp& qp) const;
  size_t path_number(const Qp& qp) const;
  std::string advice_for_transition(const Qp& qp, int sys_errno) const;
  std::string likely_cause(const Qp& qp, ibv_wc_status status) const;
  size_t count_flushed(const Qp& qp) const;

  int rank_;
  VerbsConfig config_;
  std::unique_ptr<tcp::PairConnector> connector_;  // until connected
  Bytes address_;
  std::vector<Rail> rails_;
  Fd epoll_, ready_;  // ready_: an eventfd that is always readable
  Fd attention_;      // sockets and events only
  std::vector<OutLink> out_;
  std::vector<InLink> in_;
  EndpointCounters counters_;
  std::vector<TagSlot> tag_memory_;  // in links' slots, then out links' sources
  std::vector<std::span<std::byte>> memory_;
  std::deque<Peer> peers_;
  std::vector<OutPlace> out_place_;
  std::vector<InPlace> in_place_;
  uint32_t batch_ = 0;  // the limit now; 0: the queues' own
  std::vector<PolledQueue> polled_;
  std::deque<Qp> qps_;  // after everything that they use: destroyed first
  std::vector<size_t> dirty_;
  std::vector<ibv_wc> early_;  // completions found while going to sleep
  bool appended_ = false;      // something since the last flush
  bool changed_outside_poll_ = false;
  bool look_at_events_ = false;
  bool rails_changed_ = false;  // an event says so
  bool was_in_trouble_ = false;
  bool draining_ = false;
  mutable bool asked_for_output_ = false;  // see output_pending()
  uint32_t quiet_polls_ = 0;
  uint64_t flushed_completions_ = 0;
  uint64_t connected_ns_ = 0;
  std::optional<Error> dead_;
};

/// Whether this status may be a fault of the rail, so that another one helps.
bool is_of_the_rail(ibv_wc_status status);

std::vector<RailEnd> ends_of(const std::vector<Rail>& rails);
std::vector<RailEnd> ends_of(const std::vector<OfferedRail>& rails);

Result<std::unique_ptr<Endpoint>> make_verbs_endpoint(int rank, const std::string& ifname, const Secret& secret,
                                                      VerbsConfig config);

}  // namespace twohop::verbs
