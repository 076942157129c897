// How the verbs endpoint comes up: sockets to the peers, memory registered, offers exchanged, links placed. Rails are
// joined in verbs_paths.cpp, the queue pairs made in verbs_queues.cpp. No payload moves here.
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

constexpr size_t kExpectedInput = 256;

bool by_channel_and_tag(const LinkId& a, const LinkId& b) {
  return std::pair(a.channel, a.tag) < std::pair(b.channel, b.tag);
}

}  // namespace

VerbsEndpoint::VerbsEndpoint(int rank, VerbsConfig config, std::unique_ptr<tcp::PairConnector> connector,
                             std::vector<Rail> rails, Fd epoll, Fd ready, Fd attention)
    : rank_(rank),
      config_(std::move(config)),
      connector_(std::move(connector)),
      address_(connector_->address()),
      rails_(std::move(rails)),
      epoll_(std::move(epoll)),
      ready_(std::move(ready)),
      attention_(std::move(attention)) {
  if (config_.tuning.timeout == 0) config_.tuning.timeout = rails_.size() > 1 ? 16 : 20;
}

Result<MemoryRegion> VerbsEndpoint::register_on(Rail& rail, std::span<std::byte> memory) {
  const uint64_t start = now_ns();
  auto region = MemoryRegion::create(rail.pd, memory, config_.rails.ordering, counters_.registered_bytes);
  counters_.registration_ns += now_ns() - start;
  if (!region) return region;
  ++counters_.registrations;
  counters_.registered_bytes += memory.size();
  return region;
}

Result<> VerbsEndpoint::register_memory(std::span<std::byte> memory) {
  TWOHOP_CHECK(connector_, "register_memory() after connect() at rank {}", rank_);
  memory_.push_back(memory);
  for (Rail& rail : rails_) {
    auto region = register_on(rail, memory);
    if (!region) return die(region.error());
    rail.regions.push_back(std::move(*region));
  }
  return {};
}

/// Inboxes that lie in no registered memory yet, and the slots of the call tags.
Result<> VerbsEndpoint::prepare_memory() {
  for (const InLink& l : in_) {
    if (l.inbox.empty() || find_region(rails_.front(), l.inbox.data(), l.inbox.size())) continue;
    if (auto r = register_memory(l.inbox); !r) return r;
  }
  tag_memory_.resize((in_.size() + out_.size()) * kMaxPutsInFlight);
  if (tag_memory_.empty()) return {};
  for (Rail& rail : rails_) {
    auto region = register_on(rail, std::as_writable_bytes(std::span(tag_memory_)));
    if (!region) return region.error();
    rail.tags = std::move(*region);
  }
  return {};
}

Result<> VerbsEndpoint::make_peers(std::span<const Bytes> all_addresses, Deadline deadline, int stop_fd) {
  std::vector<tcp::Pair> pairs = tcp::group_links(rank_, out_, in_, false);
  const auto nothing_more = [](const tcp::Pair&, int, Deadline) { return Result<>(); };
  if (auto r = connector_->connect(pairs, all_addresses, nothing_more, deadline, stop_fd); !r) return r;
  for (tcp::Pair& pair : pairs) {
    Peer& p = peers_.emplace_back();
    p.rank = pair.peer;
    p.address = std::move(pair.address);
    p.socket = std::move(pair.fd);
    p.out = std::move(pair.out);
    p.in = std::move(pair.in);
    const auto order = [](const auto* a, const auto* b) { return by_channel_and_tag(a->id, b->id); };
    std::sort(p.out.begin(), p.out.end(), order);
    std::sort(p.in.begin(), p.in.end(), order);
  }
  return {};
}

Offer VerbsEndpoint::make_offer(const Peer& p) const {
  Offer offer;
  offer.qps_per_connection = static_cast<uint32_t>(config_.qps_per_connection);
  for (const Rail& rail : rails_) {
    OfferedRail offered{{}, rail.gids};
    RailRow& row = offered.row;
    row.lid = rail.lid;
    row.mtu = static_cast<uint8_t>(rail.mtu);
    row.link_layer = rail.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    row.tag_key = rail.tags ? rail.tags->rkey : 0;
    row.number = rail.number < 0 ? kNoRailNumber : static_cast<uint16_t>(rail.number);
    row.own = rail.own ? 1 : 0;
    std::strncpy(row.name, rail.name.c_str(), sizeof row.name - 1);
    offer.rails.push_back(std::move(offered));
  }
  for (const OutLink* l : p.out)
    offer.links.push_back(
        {l->id.channel, l->id.tag, static_cast<uint16_t>(l->max_in_flight), 1, 0, l->inbox_bytes, 0, 0});
  for (const InLink* l : p.in) {
    const TagSlot* tags = &tag_memory_[static_cast<size_t>(l - in_.data()) * kMaxPutsInFlight];
    offer.links.push_back({l->id.channel, l->id.tag, static_cast<uint16_t>(l->max_in_flight), 0, 0, l->inbox.size(),
                           reinterpret_cast<uintptr_t>(l->inbox.data()), reinterpret_cast<uintptr_t>(tags)});
    for (const Rail& rail : rails_) {
      const MemoryRegion* region = find_region(rail, l->inbox.data(), l->inbox.size());
      offer.keys.push_back(region ? (*region)->rkey : 0);
    }
  }
  return offer;
}

/// Where the peer's links lie, now that its offer is known.
void VerbsEndpoint::place_links(Peer& p, size_t peer_index, const Offer& theirs) {
  p.keys = theirs.keys;
  size_t incoming = 0;
  for (const LinkRow& row : theirs.links) {
    if (row.outgoing) continue;
    const size_t first_key = incoming++ * p.rails.size();
    const auto number = std::find_if(p.out.begin(), p.out.end(), [&](const OutLink* l) {
      return l->id.channel == row.channel && l->id.tag == row.tag;
    });
    const auto index = static_cast<size_t>(*number - out_.data());
    OutPlace& place = out_place_[index];
    place.peer = peer_index;
    place.number = static_cast<uint16_t>(number - p.out.begin());
    place.inbox_address = row.inbox_address;
    place.tag_address = row.tag_address;
    place.tags = &tag_memory_[(in_.size() + index) * kMaxPutsInFlight];
    place.first_key = first_key;
    for (size_t q : qps_of(p, row.channel)) {
      const size_t rail = p.paths[q / p.qps_per_path].remote_rail;
      place.qps.push_back(p.first_qp + q);
      place.inbox_keys.push_back(theirs.keys[first_key + rail]);
      place.tag_keys.push_back(p.rails[rail].row.tag_key);
    }
  }
  for (size_t i = 0; i < p.in.size(); ++i) {
    const auto index = static_cast<size_t>(p.in[i] - in_.data());
    InPlace& place = in_place_[index];
    place.peer = peer_index;
    place.number = static_cast<uint16_t>(i);
    place.credit_qp = p.first_qp + qps_of(p, p.in[i]->id.channel).front();
    place.tags = &tag_memory_[index * kMaxPutsInFlight];
  }
}

/// Every message is sent to all peers before any is awaited, so that no order of the ranks can block.
Result<> VerbsEndpoint::connect_all(std::span<const Bytes> all_addresses, Deadline deadline, int stop_fd) {
  if (auto r = prepare_memory(); !r) return r;
  if (auto r = make_peers(all_addresses, deadline, stop_fd); !r) return r;
  out_place_.resize(out_.size());
  in_place_.resize(in_.size());
  for (Peer& p : peers_)
    if (auto r = send_offer(p.socket.get(), make_offer(p), deadline); !r)
      return about(p, r.error().code, r.error().message);
  size_t next_qp = 0;
  for (size_t i = 0; i < peers_.size(); ++i) {
    Peer& p = peers_[i];
    auto offer = receive_offer(p.socket.get(), deadline);
    if (!offer) return about(p, offer.error().code, offer.error().message);
    if (auto r = accept_offer(p, *offer); !r) return about(p, r.error().code, r.error().message);
    p.first_qp = next_qp;
    next_qp += p.paths.size() * p.qps_per_path;
    place_links(p, i, *offer);
  }
  if (auto r = make_queues(); !r) return r;
  for (Peer& p : peers_) {
    std::vector<QpRow> rows;
    for (size_t q = 0; q < p.paths.size() * p.qps_per_path; ++q) {
      const QpEnd& mine = qps_[p.first_qp + q].plan.local;
      rows.push_back({mine.qpn, mine.psn});
    }
    if (auto r = send_rows(p.socket.get(), rows, deadline); !r) return about(p, r.error().code, r.error().message);
  }
  for (Peer& p : peers_)
    if (auto r = connect_qps(p, deadline); !r) return r;
  for (Peer& p : peers_)
    if (auto r = receive_ready(p.socket.get(), deadline); !r) return about(p, r.error().code, r.error().message);
  return {};
}

Result<> VerbsEndpoint::connect(std::vector<OutLink> out, std::vector<InLink> in, std::span<const Bytes> all_addresses,
                                Deadline deadline, int stop_fd) {
  TWOHOP_CHECK(connector_, "connect() is called twice at rank {}", rank_);
  out_ = std::move(out);
  in_ = std::move(in);
  if (auto r = connect_all(all_addresses, deadline, stop_fd); !r) return die(r.error());
  connector_.reset();
  if (auto r = watch_everything(); !r) return die(r.error());
  connected_ns_ = now_ns();
  if (!peers_.empty()) counters_.rails = std::min(rails_.size(), EndpointCounters::kMaxRails);
  print_load_plan();
  return {};
}

/// One epoll for all that may wake a sleeper: sockets, completion channels, asynchronous events.
Result<> VerbsEndpoint::watch_everything() {
  auto watch = [&](int fd, bool between_calls = true) -> Result<> {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    bool watched = ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
    event.events |= EPOLLET;
    if (between_calls) watched &= ::epoll_ctl(attention_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
    if (watched) return {};
    return system_error(errno, "cannot await events of the verbs endpoint");
  };
  for (Peer& p : peers_) {
    if (auto r = watch(p.socket.get()); !r) return r;
    p.input.reserve(kExpectedInput);  // the fast path meets goodbyes, and allocates nothing
  }
  for (Rail& rail : rails_) {
    if (auto r = watch(rail.channel->get()->fd, false); !r) return r;
    if (auto r = watch(rail.context->get()->async_fd); !r) return r;
  }
  early_.reserve(kPollBatch);
  return {};
}

Result<std::unique_ptr<Endpoint>> make_verbs_endpoint(int rank, const std::string& ifname, const Secret& secret,
                                                      VerbsConfig config) {
  auto library = VerbsLibrary::load(config.library);
  if (!library) return library.error();
  auto rails = open_rails(*library, config.rails);
  if (!rails) return rails.error();
  auto connector = tcp::PairConnector::create(rank, ifname, secret);
  if (!connector) return connector.error();
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_error(errno, "epoll_create1 for the verbs endpoint");
  Fd ready(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ready) return system_error(errno, "eventfd for the verbs endpoint");
  Fd attention(::epoll_create1(EPOLL_CLOEXEC));
  if (!attention) return system_error(errno, "epoll_create1 for the verbs endpoint");
  return std::unique_ptr<Endpoint>(std::make_unique<VerbsEndpoint>(rank, std::move(config), std::move(*connector),
                                                                   std::move(*rails), std::move(epoll),
                                                                   std::move(ready), std::move(attention)));
}

}  // namespace twohop::verbs
