// NetworkHop: the CPU's part of a call that runs on a GPU. It takes puts, credits and copies from the kernel's queue,
// gives them to the endpoint and the copy engine, and writes the endpoint's counts to where the kernel polls them.
//
// Rules of order
//   - A put's bytes are complete in memory before its entry is published (the kernel's release at system scope), so the
//     endpoint, or the copy engine, may read them as soon as the entry is seen.
//   - Copies are started as soon as their entry is seen, and entries end in their order: one whose copies are under way
//     holds up those behind it. A put is sent when its copies are complete.
//   - `sent` and `consumed` are published as the endpoint reports them.
//   - Bytes that a NIC wrote to a GPU can still be on their way when the CPU sees their completion. `flush` makes them
//     visible to kernels; it is called after the endpoint has reported arrivals and before `arrived` is published.
//   - Tags are written before `arrived`.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collectives/exec/loop/copy_engine.hpp"
#include "collectives/exec/loop/loop_call.hpp"
#include "transport/endpoint.hpp"

namespace twohop {

class NetworkHop {
 public:
  struct Parts {
    Endpoint* endpoint = nullptr;  // null on a single node: copies only
    PutQueueReader queue;
    LoopLinkWords* out_words = nullptr;  // one per link of the endpoint
    LoopLinkWords* in_words = nullptr;
    size_t out_count = 0, in_count = 0;
    std::function<Result<>()> flush;     // may be empty: nothing to do
    std::unique_ptr<CopyEngine> engine;  // null: lanes copy themselves
    LoopReport* report = nullptr;
    int rank = 0;  // for errors
  };
  explicit NetworkHop(Parts parts);
  NetworkHop(const NetworkHop&) = delete;
  NetworkHop& operator=(const NetworkHop&) = delete;
  ~NetworkHop();  // ends the copies

  /// One turn, without waiting: true when something moved. The error is the endpoint's or the copy engine's.
  Result<bool> progress();
  /// Something in the queue has not been taken yet, or is being copied.
  bool has_requests() const { return parts_.queue.front() != nullptr; }
  /// Starts no more copies, waits for those under way, and tells the lanes so: they leave. Calls are over.
  void end_copies();

 private:
  Result<bool> take_requests();
  Result<bool> start_copies();
  Error failed(Error copy) const;
  void serve(const PutEntry& entry);
  Result<bool> poll_endpoint(bool took);
  void publish_out(size_t link);
  bool arrivals_wait() const;
  void publish_in(size_t link);

  Parts parts_;
  uint64_t looked_ahead_ = 0;      // entries of the queue, from its front, whose copies have been started
  uint64_t copies_ = 0;            // of the entries that have left the queue
  std::vector<uint64_t> arrived_;  // as published
};

}  // namespace twohop
