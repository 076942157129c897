// One end of a row: its memory and its connected queue pairs. Setup only; the messages are flow.hpp's.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "control_link.hpp"
#include "pattern.hpp"
#include "ports.hpp"
#include "transport/verbs/verbs_send_queue.hpp"

namespace twohop::verbs_perf {

struct RowQp {
  verbs::QueuePair pair;
  verbs::ConnectionPlan plan;
  size_t port = 0;  // in the row's ports
  verbs::SendQueue queue;
};

/// What the other end's memory is called.
struct RemoteMemory {
  uint64_t address = 0;
  std::vector<uint32_t> keys;  // by port
};

class RowEnd {
 public:
  /// `end`: 0 client, 1 server. Makes everything and connects it; both ends call it at the same time.
  static Result<std::unique_ptr<RowEnd>> connect(const RowSpec& row, int end, std::vector<RowPort> ports,
                                                 const std::vector<RemotePort>& remote, ControlLink& link,
                                                 Deadline deadline);

  /// "queue pair 0x12 of softnic0:1 (...) to 0x13 of ...".
  std::string describe(const RowQp& qp) const;
  const verbs::VerbsApi& api() const { return ports_.front().rail->context->api(); }
  std::span<std::byte> memory() { return {memory_.get(), layout_.bytes()}; }
  Result<> post_receive(size_t qp, size_t slot);

  const RowSpec& row() const { return row_; }
  int end() const { return end_; }
  bool sends() const { return end_ == 0 || row_.bidirectional; }
  const Layout& layout() const { return layout_; }
  const std::vector<RowPort>& ports() const { return ports_; }
  const std::vector<RemotePort>& remote_ports() const { return remote_; }
  const std::vector<std::shared_ptr<verbs::CompletionQueue>>& cqs() const { return cqs_; }
  const RemoteMemory& remote_memory() const { return remote_memory_; }
  std::deque<RowQp>& qps() { return qps_; }
  uint32_t local_key(size_t port) const { return regions_[port]->lkey; }
  EndpointCounters& counters() { return counters_; }
  double setup_ms() const { return setup_ms_; }        // making and connecting the queue pairs
  double register_ms() const { return register_ms_; }  // registering the memory

 private:
  RowEnd(const RowSpec& row, int end, std::vector<RowPort> ports, std::vector<RemotePort> remote);
  Result<> make_memory();
  Result<> make_queues();
  Result<> make_qp(size_t number);
  Result<> join(const nlohmann::json& theirs);
  nlohmann::json introduction() const;
  Result<> modify(RowQp& qp, const verbs::Transition& t, const char* to) const;

  RowSpec row_;
  int end_;
  Layout layout_;
  std::vector<RowPort> ports_;
  std::vector<RemotePort> remote_;
  RemoteMemory remote_memory_;
  EndpointCounters counters_;
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::vector<verbs::MemoryRegion> regions_;  // by port
  std::vector<std::shared_ptr<verbs::CompletionQueue>> cqs_;
  std::deque<RowQp> qps_;  // destroyed before what they use
  double setup_ms_ = 0, register_ms_ = 0;
};

}  // namespace twohop::verbs_perf
