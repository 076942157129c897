// Endpoint: how one rank of one communicator talks to ranks of other nodes. Each transport implements it.
//
// A link is a one-way, ordered stream of puts from one rank to another on one channel. A put writes up to two runs of
// bytes into the link's inbox at the receiver and is then counted as arrived there, in order. The receiver gives
// credit back by release(), also in order. The endpoint moves bytes and counts; what the counts mean (slots, who may
// overwrite what, when) is the schedule's business. Seams are virtual per batch, not per put: put() and release() only
// append.
//
// One thread at a time (the one that progresses the communicator). Nothing here blocks except connect() and drain().
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/handshake.hpp"
#include "base/result.hpp"

namespace twohop {

/// Which call a put belongs to, and the hash of that call's arguments.
struct CallTag {
  uint64_t call = 0;
  uint64_t signature = 0;
};

struct LinkId {
  uint16_t channel = 0;
  uint16_t tag = 0;          // tells apart links of one channel between the same two ranks
  int32_t src = 0, dst = 0;  // ranks
  bool operator==(const LinkId&) const = default;
};

/// At most this many puts of one link are between put() and release().
constexpr uint64_t kMaxPutsInFlight = 64;

/// One contiguous piece of a put. `source` must stay unchanged until the put is sent.
struct PutRun {
  const void* source = nullptr;
  uint64_t inbox_offset = 0;  // from the start of the link's inbox
  uint64_t bytes = 0;         // 0 is fine: an empty put still arrives
};

/// The sender's view of a link. Cumulative counts since connect(); they never go back.
struct OutLink {
  LinkId id;
  uint64_t inbox_bytes = 0;                   // capacity at the receiver
  uint32_t max_in_flight = kMaxPutsInFlight;  // puts between put() and release(), the same at both ends
  uint64_t posted = 0;                        // put() calls
  uint64_t sent = 0;                          // puts whose sources may be overwritten
  uint64_t consumed = 0;                      // puts the receiver has released
  bool peer_left = false;                     // the receiver has drained its endpoint: it will release nothing more
};

/// The receiver's view of a link.
struct InLink {
  LinkId id;
  std::span<std::byte> inbox;
  uint32_t max_in_flight = kMaxPutsInFlight;
  uint64_t arrived = 0;         // puts whose bytes are all in the inbox
  uint64_t released = 0;        // release() calls
  bool peer_left = false;       // the sender has drained its endpoint: nothing more will arrive
  std::array<CallTag, 4> tags;  // tag of the latest put seen of call c, at [c % 4]
};

struct EndpointCounters {
  uint64_t bytes_sent = 0, bytes_received = 0;  // payload and headers
  uint64_t puts = 0, credits = 0, flushes = 0;
  // The rest is the verbs transport's; 0 elsewhere.
  uint64_t work_requests = 0, doorbells = 0, signalled_completions = 0;
  uint64_t held_ns = 0;        // time that batches waited for their doorbell, in all
  uint64_t post_ns = 0;        // inside ibv_post_send, in all
  uint64_t completion_ns = 0;  // from the doorbell of a signalled request until its completion was seen, in all
  uint64_t registrations = 0, registered_bytes = 0, registration_ns = 0;  // memory, counted once per rail
  static constexpr size_t kMaxRails = 16;
  uint64_t rails = 0;                            // entries of rail_bytes that mean something
  std::array<uint64_t, kMaxRails> rail_bytes{};  // payload sent, by rail
  uint64_t reissued_puts = 0;  // parts of puts that were sent again since their rail died or was gone back to
  uint64_t rail_failures = 0, rail_returns = 0;  // own rails given up; paths that went back to where they belong
};

/// Adds up two endpoints of one rank, which have the same rails.
void add(EndpointCounters& to, const EndpointCounters& from);

/// What a rail's device says of it.
struct RailStatus {
  uint64_t port_id = 0;         // the same at every rank that uses the port
  bool counts_retries = false;  // the device has such counters
  uint64_t retries = 0;         // of the port since the endpoint was made: everybody's traffic on it
};

/// What moved some bytes, in words for messages; rail -1: none of its own.
struct Carrier {
  std::string name;
  int rail = -1;
};

/// Memory of a GPU, and the descriptor by which its driver offers it to other devices.
struct GpuRegion {
  std::span<std::byte> memory;
  int dmabuf = -1;  // covers `memory` from its start; -1: none
  std::string why_no_dmabuf;
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  /// "tcp", "verbs" or "softnic".
  virtual const char* name() const = 0;
  /// Numbers of the rails that this rank should use, the same on all nodes; their positions where nothing numbers them.
  /// Empty: the network has none.
  virtual std::vector<int> own_rails() const { return {}; }
  /// How many channels suit this network: more of them share one batch where that is what costs. Where each channel is
  /// a connection that competes with the others for the wire, one is best.
  virtual int default_channels() const { return 1; }
  /// Memory that puts will be sent from and inboxes lie in: an RDMA device wants to know it. Before connect(). The
  /// memory is the caller's and outlives the endpoint.
  virtual Result<> register_memory(std::span<std::byte>) { return {}; }
  /// The same for GPU memory, which the device reads and writes itself (GPUDirect RDMA). Returns how: "dma-buf" or
  /// "nvidia-peermem". The error has the reason for each. `keep` false: a try, of which nothing stays.
  virtual Result<std::string> register_gpu_memory(const GpuRegion&, bool keep);
  /// Memory of the user's that puts may be sent from until it is deregistered; while no call runs.
  virtual Result<> register_user_memory(std::span<std::byte>) { return {}; }
  virtual void deregister_user_memory(std::span<std::byte>) {}
  /// What other ranks need to connect to this one; at most 512 bytes, exchanged by the caller.
  virtual Bytes address() const = 0;

  /// Connects all links; every rank calls it at the same time. out/in are the links that start/end at this rank, out
  /// with inbox_bytes set and in with inbox memory set (the memory is the caller's and outlives the endpoint);
  /// all_addresses is indexed by rank. The links are stored at stable addresses: out(i)/in(i) have the order given
  /// here. Ends with twohopAborted when stop_fd becomes readable while it waits for a connection; with established
  /// ones it waits for their other ends, whose own connect() ends too.
  virtual Result<> connect(std::vector<OutLink> out, std::vector<InLink> in, std::span<const Bytes> all_addresses,
                           Deadline deadline, int stop_fd = -1) = 0;
  virtual OutLink& out(size_t i) = 0;
  virtual InLink& in(size_t i) = 0;

  /// Appends a put of one or two runs to the batch. Copies `runs`; the bytes they point to must stay until sent.
  virtual void put(size_t out_link, const CallTag& tag, std::span<const PutRun> runs) = 0;
  /// Gives one put's credit back (in order of arrival). Several may be merged into one message.
  virtual void release(size_t in_link) = 0;
  /// Starts sending what was appended since the last flush; cheap when there is nothing.
  virtual Result<> flush() = 0;
  /// At most so many work requests a doorbell from now on, where the network has such; never above its own setting.
  virtual void limit_batch(uint32_t) {}
  /// Moves bytes both ways without blocking and updates the links' counts; true if any count changed.
  /// The error names the peer and the cause; the endpoint is then dead.
  virtual Result<bool> poll() = 0;
  /// True while something appended and flushed is not yet in the network's hands.
  virtual bool output_pending() const = 0;
  /// Appends what to wait for when there is nothing to do (readable; writable where output is pending). What happens
  /// from now on makes one of them ready; poll() before sleeping is not needed.
  virtual void wait_for(std::vector<pollfd>& fds) = 0;
  /// Waits until all puts are sent and consumed or the deadline passes, then closes so that nothing in flight is lost.
  /// Peers may still be in their last call: that a drained rank is gone is an error only for who puts to it again.
  virtual Result<> drain(Deadline deadline) = 0;

  /// What carried the bytes [begin, end) of put number `put` (from 1, of so many bytes in all) of an in link. For
  /// messages about data that went bad.
  virtual Carrier carrier_of(size_t /*in_link*/, uint64_t /*put*/, uint64_t /*bytes*/, uint64_t /*begin*/,
                             uint64_t /*end*/) const {
    return {name()};
  }
  /// Between calls other ranks may still need this one: when a rail died under what it has sent. Edge-triggered epoll,
  /// ready when serve_between_calls() should be called; -1: never. One thread at a time, as everything here.
  virtual int attention_fd() const { return -1; }
  /// Moves on without blocking; true if it should be called again soon. Errors are kept for the next call.
  virtual bool serve_between_calls() { return false; }

  virtual EndpointCounters counters() const = 0;
  /// Asks the devices (files, perhaps their firmware): not for the fast path. Any thread, once connected.
  virtual std::vector<RailStatus> rail_status() const { return {}; }
  /// Over which of this rank's rails the puts of an out link go; empty where there are none.
  virtual std::vector<size_t> rails_of(size_t out_link) const {
    (void)out_link;
    return {};
  }
};

/// tcp: one socket per (channel, pair of ranks). Listens on the interface chosen by `ifname` (choose_interface).
Result<std::unique_ptr<Endpoint>> make_tcp_endpoint(int rank, const std::string& ifname, const Secret& secret);

}  // namespace twohop
