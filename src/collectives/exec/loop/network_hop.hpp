// NetworkHop: the CPU's part of a call that runs on a GPU. It takes puts and credits from the kernel's queue, gives
// them to the endpoint, and writes the endpoint's counts to where the kernel polls them.
//
// Rules of order
//   - A put's bytes are complete in memory before its entry is published (the kernel's release at system scope), so the
//     endpoint may read them as soon as it sees the entry.
//   - `sent` and `consumed` are published as the endpoint reports them.
//   - Bytes that a NIC wrote to a GPU can still be on their way when the CPU sees their completion. `flush` makes them
//     visible to kernels; it is called after the endpoint has reported arrivals and before `arrived` is published.
//   - Tags are written before `arrived`.
#pragma once

#include <functional>
#include <vector>

#include "collectives/exec/loop/loop_call.hpp"
#include "transport/endpoint.hpp"

namespace twohop {

class NetworkHop {
 public:
  /// `out_words` and `in_words` have one element per link of the endpoint. `flush` may be empty: nothing to do.
  NetworkHop(Endpoint& endpoint, PutQueueReader queue, LoopLinkWords* out_words, size_t out_count,
             LoopLinkWords* in_words, size_t in_count, std::function<Result<>()> flush);

  /// One turn, without waiting: true when something moved. The error is the endpoint's.
  Result<bool> progress();
  /// Something in the queue has not been taken yet.
  bool has_requests() const { return queue_.front() != nullptr; }

 private:
  bool take_requests();
  void publish_out(size_t link);
  bool arrivals_wait() const;
  void publish_in(size_t link);

  Endpoint& endpoint_;
  PutQueueReader queue_;
  LoopLinkWords* out_words_;
  LoopLinkWords* in_words_;
  size_t out_count_, in_count_;
  std::function<Result<>()> flush_;
  std::vector<uint64_t> arrived_;  // as published
};

}  // namespace twohop
