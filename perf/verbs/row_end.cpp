// See row_end.hpp.
#include "row_end.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <random>

namespace twohop::verbs_perf {
namespace {

constexpr std::align_val_t kPage{4096};

uint32_t random_psn() {
  static std::random_device random;
  return random() & 0xffffff;
}

unsigned access_of(Op op) {
  if (op == Op::kRead) return IBV_ACCESS_REMOTE_READ;
  // An atomic writes; credits write nothing, but are writes.
  if (op == Op::kAtomic) return unsigned{IBV_ACCESS_REMOTE_ATOMIC} | IBV_ACCESS_REMOTE_WRITE;
  return IBV_ACCESS_REMOTE_WRITE;
}

double ms_since(uint64_t start_ns) {
  return static_cast<double>(verbs::now_ns() - start_ns) * 1e-6;
}

}  // namespace

void RowEnd::Free::operator()(std::byte* p) const {
  ::operator delete(p, kPage);
}

RowEnd::RowEnd(const RowSpec& row, int end, std::vector<RowPort> ports, std::vector<RemotePort> remote)
    : row_(row),
      end_(end),
      layout_(row, static_cast<size_t>(row.qps) * ports.size()),
      ports_(std::move(ports)),
      remote_(std::move(remote)) {}

Result<> RowEnd::make_memory() {
  const size_t bytes = layout_.bytes();
  memory_.reset(static_cast<std::byte*>(::operator new(bytes, kPage, std::nothrow)));
  if (!memory_)
    return make_error(twohopSystemError, "no memory for the row's {} bytes: give a smaller -s or -q", bytes);
  prepare(memory(), layout_, row_, end_);
  const uint64_t start = verbs::now_ns();
  for (const RowPort& port : ports_) {
    auto region =
        verbs::MemoryRegion::create(port.rail->pd, memory(), verbs::RelaxedOrdering::kAuto, 0, access_of(row_.op));
    if (!region) return region.error();
    regions_.push_back(std::move(*region));
  }
  register_ms_ = ms_since(start);
  return {};
}

Result<> RowEnd::make_qp(size_t number) {
  const size_t index = number / static_cast<size_t>(row_.qps);
  const RowPort& port = ports_[index];
  verbs::QueueDepths depths{send_depth(row_), receive_depth(row_), static_cast<uint32_t>(row_.inline_bytes)};
  auto pair = verbs::QueuePair::create(port.rail->pd, cqs_[index], depths);
  if (!pair) return pair.error();
  const RemotePort& theirs = remote_[index];
  verbs::ConnectionPlan plan;
  plan.local = {(*pair)->qp_num, random_psn(), port.rail->lid, port.gid.gid};
  plan.remote.lid = theirs.lid;
  plan.remote.gid = theirs.gid;
  plan.port = port.rail->port;
  plan.gid_index = static_cast<uint8_t>(port.gid.index);
  plan.global = port.rail->ethernet;
  plan.mtu = verbs::mtu_from_bytes(std::min(port.mtu, theirs.mtu));
  plan.flow_label = static_cast<uint32_t>((number + 1) * 0x9e37) & 0xfffff;
  plan.tuning = {.timeout = static_cast<uint8_t>(row_.timeout),
                 .retry_count = static_cast<uint8_t>(row_.retries),
                 .traffic_class = static_cast<uint8_t>(row_.traffic_class),
                 .service_level = static_cast<uint8_t>(row_.service_level)};
  plan.access = access_of(row_.op);
  if (row_.op == Op::kRead || row_.op == Op::kAtomic)
    plan.reads_in_flight = static_cast<uint8_t>(std::min(port.reads_in_flight, theirs.reads_in_flight));
  const auto depth = static_cast<uint32_t>(row_.tx_depth), batch = static_cast<uint32_t>(row_.batch);
  // The tail that is not signalled and one more list must fit into -t.
  const uint32_t signal_every = std::max(1u, std::min({static_cast<uint32_t>(row_.cq_mod), depth - batch, depth / 2}));
  // No list is ever held back: what a list gains is what this tool measures.
  const verbs::SendRules rules{
      .max_posted = depth, .batch = batch, .hold_bytes = UINT64_MAX, .signal_every = signal_every};
  verbs::SendQueue queue(pair->get(), static_cast<uint32_t>(number), send_depth(row_), rules, &counters_);
  qps_.push_back({std::move(*pair), plan, index, std::move(queue)});
  return modify(qps_.back(), to_init(plan), "INIT");
}

Result<> RowEnd::make_queues() {
  const size_t entries = static_cast<size_t>(row_.qps) * (send_depth(row_) + receive_depth(row_));
  for (const RowPort& port : ports_) {
    if (entries > static_cast<size_t>(port.rail->max_completions))
      return make_error(twohopInvalidArgument,
                        "{} has completion queues of at most {} entries, the row needs {}: give "
                        "a smaller -q or -t",
                        port.rail->name, port.rail->max_completions, entries);
    auto cq = verbs::CompletionQueue::create(port.rail->context, port.rail->channel, static_cast<int>(entries));
    if (!cq) return cq.error();
    cqs_.push_back(std::move(*cq));
  }
  for (size_t q = 0; q < layout_.queue_pairs; ++q) {
    if (auto made = make_qp(q); !made) return made;
    for (size_t r = 0; needs_receives(row_.op) && r < receive_depth(row_); ++r)
      if (auto posted = post_receive(q, r % layout_.target_slots); !posted) return posted;
  }
  return {};
}

Result<> RowEnd::post_receive(size_t q, size_t slot) {
  RowQp& qp = qps_[q];
  ibv_sge sge{reinterpret_cast<uintptr_t>(memory_.get()) + layout_.target(q, slot), static_cast<uint32_t>(row_.size),
              local_key(qp.port)};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = verbs::SendQueue::receive_wr_id(static_cast<uint32_t>(q)) | slot;
  if (row_.op == Op::kSend) {
    wr.sg_list = &sge;
    wr.num_sge = 1;
  }
  if (const int failed = ibv_post_recv(qp.pair.get(), &wr, &bad))
    return system_error(failed, "{}: cannot post a receive", describe(qp));
  return {};
}

nlohmann::json RowEnd::introduction() const {
  nlohmann::json qps = nlohmann::json::array(), keys = nlohmann::json::array();
  for (const RowQp& qp : qps_) qps.push_back({qp.plan.local.qpn, qp.plan.local.psn});
  for (const auto& region : regions_) keys.push_back(region->rkey);
  return {{"qps", qps}, {"keys", keys}, {"address", reinterpret_cast<uintptr_t>(memory_.get())}};
}

Result<> RowEnd::join(const nlohmann::json& theirs) {
  try {
    const auto qps = theirs.at("qps").get<std::vector<std::pair<uint32_t, uint32_t>>>();
    theirs.at("keys").get_to(remote_memory_.keys);
    theirs.at("address").get_to(remote_memory_.address);
    if (qps.size() != qps_.size() || remote_memory_.keys.size() != ports_.size())
      return make_error(twohopRemoteError, "the other end has made {} queue pairs on {} ports, this one {} on {}",
                        qps.size(), remote_memory_.keys.size(), qps_.size(), ports_.size());
    for (size_t i = 0; i < qps.size(); ++i) std::tie(qps_[i].plan.remote.qpn, qps_[i].plan.remote.psn) = qps[i];
  } catch (const nlohmann::json::exception& e) {
    return make_error(twohopRemoteError, "the other end's queue pairs cannot be read: {}", e.what());
  }
  for (RowQp& qp : qps_) {
    if (auto r = modify(qp, to_ready_to_receive(qp.plan), "RTR"); !r) return r;
    if (auto r = modify(qp, to_ready_to_send(qp.plan), "RTS"); !r) return r;
  }
  return {};
}

Result<> RowEnd::modify(RowQp& qp, const verbs::Transition& t, const char* to) const {
  ibv_qp_attr attributes = t.attributes;
  if (const int failed = api().modify_qp(qp.pair.get(), &attributes, t.mask))
    return system_error(failed,
                        "{}: cannot go to {}: compare GIDs (-x at both ends), MTU and service level with the fabric's",
                        describe(qp), to);
  return {};
}

std::string RowEnd::describe(const RowQp& qp) const {
  const RowPort& port = ports_[qp.port];
  const RemotePort& theirs = remote_[qp.port];
  const verbs::ConnectionPlan& c = qp.plan;
  return fmt::format(
      "queue pair {:#x} of {} (GID {} {} {}) to {:#x} of {} ({} {}), MTU {}, timeout {} and {} retries "
      "({:.2g} s in all)",
      c.local.qpn, port.rail->name, port.gid.index, verbs::to_string(c.local.gid), verbs::gid_type_name(port.gid.type),
      c.remote.qpn, theirs.name, verbs::to_string(c.remote.gid), verbs::gid_type_name(theirs.gid_type),
      verbs::mtu_bytes(c.mtu), c.tuning.timeout, c.tuning.retry_count,
      verbs::give_up_seconds(c.tuning.timeout, c.tuning.retry_count));
}

Result<std::unique_ptr<RowEnd>> RowEnd::connect(const RowSpec& row, int end, std::vector<RowPort> ports,
                                                const std::vector<RemotePort>& remote, ControlLink& link,
                                                Deadline deadline) {
  std::unique_ptr<RowEnd> self(new RowEnd(row, end, std::move(ports), remote));
  if (auto r = self->make_memory(); !r) return r.error();
  const uint64_t start = verbs::now_ns();
  if (auto r = self->make_queues(); !r) return r.error();
  auto theirs = link.exchange(self->introduction(), deadline);
  if (!theirs) return theirs.error();
  if (auto r = self->join(*theirs); !r) return r.error();
  auto ready = link.exchange({{"ready", true}}, deadline);
  if (!ready) return ready.error();
  self->setup_ms_ = ms_since(start);
  return self;
}

}  // namespace twohop::verbs_perf
