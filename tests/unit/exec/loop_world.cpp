#include "loop_world.hpp"

#include <cstring>

#include "collectives/plan/direct.hpp"

namespace twohop::loop_test {
namespace {

std::vector<const Algorithm*> every_algorithm() {
  std::vector<const Algorithm*> all;
  for (const Algorithm& a : algorithms()) all.push_back(&a);
  return all;
}

}  // namespace

Result<> FabricEndpoint::connect(std::vector<OutLink> out, std::vector<InLink> in, std::span<const Bytes>, Deadline,
                                 int) {
  out_ = std::move(out);
  in_ = std::move(in);
  return {};
}

void FabricEndpoint::put(size_t link, const CallTag& tag, std::span<const PutRun> runs) {
  Wire& w = wire(fabric_, out_[link].id);
  const std::lock_guard lock(w.mutex);
  w.messages.push_back({tag, {runs.begin(), runs.end()}});
  ++out_[link].posted;
}

void FabricEndpoint::release(size_t link) {
  Wire& w = wire(fabric_, in_[link].id);
  const std::lock_guard lock(w.mutex);
  w.released = ++in_[link].released;
}

Result<bool> FabricEndpoint::poll() {
  bool some = false;
  for (OutLink& o : out_) {
    Wire& w = wire(fabric_, o.id);
    const std::lock_guard lock(w.mutex);
    some |= o.sent != w.taken || o.consumed != w.released;
    o.sent = w.taken;
    o.consumed = w.released;
  }
  for (InLink& i : in_) {
    Wire& w = wire(fabric_, i.id);
    const std::lock_guard lock(w.mutex);
    if (w.messages.empty() || random_bits() % 4 == 0) continue;
    const Wire::Message& m = w.messages.front();
    for (const PutRun& r : m.runs)
      if (r.bytes > 0) std::memcpy(i.inbox.data() + r.inbox_offset, r.source, r.bytes);
    i.tags[m.tag.call % i.tags.size()] = m.tag;
    ++i.arrived;
    ++w.taken;
    w.messages.pop_front();
    some = true;
  }
  return some;
}

LoopRank::LoopRank(World& world, int rank) : world_(world), rank_(rank), me_(world.cluster.local_of[rank]) {
  const auto& peers = world.cluster.peers_of(rank);
  for (int r : peers) tables_.push_back(links_of(every_algorithm(), world.cluster, r, world.size.channels));
  board_bytes_ = world.map.window(0);
  const size_t bytes = peers.size() * board_bytes_ + world.map.total(tables_[me_].in_inboxes());
  memory_ = std::make_unique<std::byte[]>(bytes + 64);
  out_.resize(tables_[me_].out.size());
  in_.resize(tables_[me_].in.size());
  out_words_.resize(out_.size());
  in_words_.resize(in_.size());
  entries_.resize(4);  // small, so that it fills up
  if (world.size.host == HostMemory::kInboxes)
    staging_.resize(std::max<size_t>(1, tables_[me_].out_inboxes()) * 2 * world.map.inbox_bytes);
}

LoopRank::~LoopRank() {
  over_ = true;
  if (progress_.joinable()) progress_.join();
}

void LoopRank::connect() {
  const auto& peers = world_.cluster.peers_of(rank_);
  const auto base_of = [&](int r) {
    auto base = reinterpret_cast<uintptr_t>(world_.rank(r).memory_.get());
    return reinterpret_cast<std::byte*>((base + 63) / 64 * 64);
  };
  addresses_.me = me_;
  addresses_.map = world_.map;
  for (size_t i = 0; i < peers.size(); ++i) {
    boards_.push_back(base_of(rank_) + i * board_bytes_);
    boards_of_me_.push_back(base_of(peers[i]) + static_cast<size_t>(me_) * board_bytes_);
    // After its boards a rank's memory goes on as a segment does from its first window.
    addresses_.segments.push_back(base_of(peers[i]) + (peers.size() - 1) * board_bytes_);
  }
  addresses_.counter_sets = boards_;
  endpoint_ = std::make_unique<FabricEndpoint>(world_.fabric);
  std::vector<OutLink> out;
  std::vector<InLink> in;
  for (const LinkId& id : tables_[me_].out) out.push_back({.id = id, .inbox_bytes = 2 * world_.map.inbox_bytes});
  for (size_t i = 0; i < tables_[me_].in.size(); ++i) {
    InLink link;
    link.id = tables_[me_].in[i];
    link.inbox = {addresses_.inbox(me_, tables_[me_].in_inbox[i]), 2 * world_.map.inbox_bytes};
    in.push_back(link);
  }
  (void)endpoint_->connect(std::move(out), std::move(in), {}, {}, -1);
  make_hop();
  progress_ = std::thread([this] { progress(); });
}

bool LoopRank::has_engine() const {
  return world_.size.engine_every != 0 && rank_ % world_.size.engine_every == 0;
}

void LoopRank::make_hop() {
  NetworkHop::Parts parts;
  parts.endpoint = endpoint_.get();
  parts.queue = PutQueueReader(entries_.data(), entries_.size(), &taken_);
  parts.out_words = out_words_.data();
  parts.in_words = in_words_.data();
  parts.out_count = out_words_.size();
  parts.in_count = in_words_.size();
  if (has_engine()) parts.engine = std::make_unique<FakeCopyEngine>(world_.copies);
  parts.report = &report_;
  parts.rank = rank_;
  hop_ = std::make_unique<NetworkHop>(std::move(parts));
}

void LoopRank::progress() {
  while (!over_) {
    random_delay();
    if (!*hop_->progress()) std::this_thread::sleep_for(std::chrono::microseconds(30));
  }
}

LoopCall LoopRank::arguments(const Call& call, const BoundSchedule& schedule, const Layout& layout) {
  LoopCall c;
  set_arguments(c, call, schedule.frame, layout, world_.limits, world_.nranks());
  c.me = me_;
  c.locals = static_cast<int32_t>(boards_.size());
  c.boards = boards_.data();
  c.boards_of_me = boards_of_me_.data();
  c.state = &state_;
  c.out = out_.data();
  c.in = in_.data();
  c.out_words = out_words_.data();
  c.in_words = in_words_.data();
  c.out_count = static_cast<uint32_t>(out_.size());
  c.in_count = static_cast<uint32_t>(in_.size());
  c.queue = {entries_.data(), &tickets_, &taken_, entries_.size()};
  c.report = &report_;
  c.staging = staging_.empty() ? nullptr : staging_.data();
  c.windows_on_host = world_.size.host == HostMemory::kAll;
  c.inboxes_on_host = world_.size.host != HostMemory::kNone;
  c.by_engine = has_engine();
  // One region, all memory of the process.
  regions_.assign(boards_.size(), reinterpret_cast<std::byte*>(uintptr_t{1}));
  c.regions = regions_.data();
  return c;
}

std::optional<Error> LoopRank::run(const Call& call, const Algorithm& algorithm, bool registered) {
  const Request request{&world_.cluster, call.collective, call.root, world_.size.depths};
  const BoundSchedule schedule =
      twohop::bind(algorithm, request, false, rank_, addresses_, tables_, world_.size.channels);
  const Layout layout(schedule.frame, world_.cluster, call.count * type_size(call.type), world_.limits);
  const std::vector<LoopLane> lanes = loop_lanes(schedule, layout.channels(), world_.map);
  LoopCall c = arguments(call, schedule, layout);
  c.lanes = lanes.data();
  c.lane_count = static_cast<uint32_t>(lanes.size());
  const bool reduces = call.collective == Collective::kAllReduce || call.collective == Collective::kReduceScatter;
  const auto *send = static_cast<const std::byte*>(call.send), *recv = static_cast<const std::byte*>(call.recv);
  const size_t bytes = call.count * type_size(call.type) * static_cast<size_t>(world_.nranks());
  const bool apart = recv < send ? recv + bytes <= send : send + bytes <= recv;
  if (registered && reduces && (apart || reads_inputs_once(algorithm, request, rank_)))
    c.direct = direct_word(0, reinterpret_cast<uintptr_t>(send) - 1);
  run_lanes(c, call.type, static_cast<unsigned>(world_.size.threads_per_group));
  return fault_of(report_, world_.cluster.peers_of(rank_), tables_[me_].in, rank_);
}

World::World(const Cluster& cluster_, const WorldSize& size_) : cluster(cluster_), size(size_) {
  map.channels = static_cast<size_t>(size.channels);
  map.lanes = static_cast<size_t>(max_lanes(cluster));
  uint64_t slots = 1, put_slots = 1;
  for (const Algorithm& a : algorithms()) {
    const Frame f = a.frame({&cluster, Collective::kAllReduce, 0, size.depths});
    slots = std::max<uint64_t>(slots, uint64_t(f.areas) * f.slots);
    put_slots = std::max<uint64_t>(put_slots, uint64_t(f.put_slots) * f.chunks_per_put);
  }
  map.window_bytes = WindowMap::pages(std::max(size.window_bytes, slots * kChunkAlign));
  map.inbox_bytes = WindowMap::pages(std::max(size.inbox_bytes, put_slots * kChunkAlign));
  limits.window_bytes = map.window_bytes;
  limits.inbox_bytes = map.inbox_bytes;
  limits.chunk_bytes = size.chunk_bytes;
  limits.max_channels = size.channels;
  limits.bytes_per_channel = size.bytes_per_channel;
  for (int r = 0; r < cluster.nranks(); ++r)
    for (const LinkId& id : links_of(every_algorithm(), cluster, r, size.channels).out)
      fabric.try_emplace({id.channel, id.tag, id.src, id.dst});
  for (int r = 0; r < cluster.nranks(); ++r) ranks_.push_back(std::make_unique<LoopRank>(*this, r));
  for (auto& r : ranks_) r->connect();
}

World::~World() {
  for (auto& r : ranks_) r->over_ = true;
  for (auto& r : ranks_) r->progress_.join();
}

}  // namespace twohop::loop_test
