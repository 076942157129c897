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
  bool dirty = false;             // has something to post, or owes credits
  bool dead = false;              // a completion failed
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

/// Another rank with which this one shares links.
struct Peer {
  int rank = -1;
  std::string address;
  Fd socket;
  std::vector<OutLink*> out;  // by (channel, tag): the numbers of the wire
  std::vector<InLink*> in;
  std::vector<Path> paths;
  std::vector<OfferedRail> rails;  // theirs
  size_t first_qp = 0, qps_per_path = 1;
  uint64_t immediates_sent = 0, immediates_received = 0;
  std::optional<uint64_t> goodbye;  // it has said so: how many immediates it had sent
  bool left = false;                // and all of them are here
  bool said_goodbye = false;
  bool closed = false;  // its socket is at its end
  std::byte input[sizeof(ControlMessage)];
  size_t input_bytes = 0;
};

/// Where the memory of an out link is: at the peer, by path, and here.
struct OutPlace {
  size_t peer = 0;
  uint16_t number = 0;
  std::vector<size_t> qps;  // in qps_
  uint64_t inbox_address = 0, tag_address = 0;
  std::vector<uint32_t> inbox_keys, tag_keys;  // by entry of `qps`
  TagSlot* tags = nullptr;                     // kMaxPutsInFlight of them, sources of the tag writes
  std::optional<CallTag> last_tag;
  std::array<uint8_t, kMaxPutsInFlight> parts_left{};  // of a put, until it is sent
  uint64_t credited = 0;                               // puts that the peer has released; `consumed` waits for `sent`
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
  uint64_t credited = 0;  // releases told to the peer
  bool is_owed = false;
};

class VerbsEndpoint final : public Endpoint {
 public:
  VerbsEndpoint(int rank, VerbsConfig config, std::unique_ptr<tcp::PairConnector> connector, std::vector<Rail> rails,
                Fd epoll, Fd ready);

  const char* name() const override { return config_.name.c_str(); }
  int default_channels() const override { return 16; }  // docs/performance.md has puts per doorbell by channels
  Bytes address() const override { return address_; }
  Result<> register_memory(std::span<std::byte> memory) override;
  Result<> register_user_memory(std::span<std::byte> memory) override;
  void deregister_user_memory(std::span<std::byte> memory) override;
  Result<> connect(std::vector<OutLink> out, std::vector<InLink> in, std::span<const Bytes> all_addresses,
                   Deadline deadline) override;
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
  EndpointCounters counters() const override { return counters_; }
  std::vector<RailStatus> rail_status() const override;
  std::vector<int> own_rails() const override;

  const std::vector<Rail>& rails() const { return rails_; }

 private:
  static constexpr int kPollBatch = 32;

  // Setup.
  Result<> connect_all(std::span<const Bytes> all_addresses, Deadline deadline);
  Result<> make_peers(std::span<const Bytes> all_addresses, Deadline deadline);
  Result<> prepare_memory();
  Result<MemoryRegion> register_on(Rail& rail, std::span<std::byte> memory);
  Offer make_offer(const Peer& p) const;
  Result<> accept_offer(Peer& p, const Offer& theirs);
  Result<> check_paths(const Peer& p) const;
  Result<> make_queues();
  Result<> make_completion_queue(size_t rail);
  Result<> make_qp(size_t peer_index, size_t number);
  ConnectionPlan plan_connection(const Peer& p, size_t number) const;
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
  Result<> post(Qp& qp);

  // Completions.
  Result<bool> poll_rail(Rail& rail);
  Result<bool> handle(const ibv_wc& wc);
  Result<bool> finish_sends(Qp& qp, uint64_t wr_id);
  Result<bool> receive(Qp& qp, uint32_t immediate);
  Result<bool> receive_put(Peer& p, const Immediate& i);
  Result<bool> receive_credit(Peer& p, const Immediate& i);
  bool count_arrivals(size_t in_link);
  void consume(OutLink& link, const OutPlace& place);
  Result<> replenish(Qp& qp);
  Result<bool> failed(Qp& qp, const ibv_wc& wc);

  // The socket beside the queue pairs, and the end.
  Result<bool> serve_events();
  Result<bool> serve_socket(Peer& p);
  Result<bool> accept_control(Peer& p, const ControlMessage& m);
  bool settle_goodbye(Peer& p);
  void read_async_events(Rail& rail);
  Result<> watch_queues();
  void drain_channel(Rail& rail);
  Result<> say_goodbye(Peer& p, Deadline deadline);
  Result<> progress_until(bool (VerbsEndpoint::*done)() const, Deadline deadline);
  void log_totals() const;
  bool all_consumed() const;
  bool all_finished() const;
  Error unconsumed() const;

  // Failures.
  Error die(Error e);
  Error about(const Peer& p, twohopResult_t code, std::string message) const;
  Error violation(const Peer& p, const std::string& what) const;
  Error closed_early(const Peer& p) const;
  Error left_early(const Peer& p) const;
  Error broken(const Qp& qp, ibv_wc_status status, uint32_t vendor);
  std::string describe(const Qp& qp) const;
  const Path& path_of(const Qp& qp) const;
  std::string advice_for_transition(const Qp& qp, int sys_errno) const;
  std::string likely_cause(const Qp& qp, ibv_wc_status status) const;
  size_t count_flushed(const Qp& qp) const;

  int rank_;
  VerbsConfig config_;
  std::unique_ptr<tcp::PairConnector> connector_;  // until connected
  Bytes address_;
  std::vector<Rail> rails_;
  Fd epoll_, ready_;  // ready_: an eventfd that is always readable
  std::vector<OutLink> out_;
  std::vector<InLink> in_;
  EndpointCounters counters_;
  std::vector<TagSlot> tag_memory_;  // in links' slots, then out links' sources
  std::vector<std::span<std::byte>> memory_;
  std::deque<Peer> peers_;
  std::vector<OutPlace> out_place_;
  std::vector<InPlace> in_place_;
  uint32_t batch_ = 0;  // the limit now; 0: the queues' own
  std::deque<Qp> qps_;  // after everything that they use: destroyed first
  std::vector<size_t> dirty_;
  std::vector<ibv_wc> early_;  // completions found while going to sleep
  bool appended_ = false;      // something since the last flush
  bool changed_outside_poll_ = false;
  bool look_at_events_ = false;
  mutable bool asked_for_output_ = false;  // see output_pending()
  uint32_t quiet_polls_ = 0;
  uint64_t flushed_completions_ = 0;
  uint64_t connected_ns_ = 0;
  std::optional<Error> dead_;
};

Result<std::unique_ptr<Endpoint>> make_verbs_endpoint(int rank, const std::string& ifname, const Secret& secret,
                                                      VerbsConfig config);

}  // namespace twohop::verbs
