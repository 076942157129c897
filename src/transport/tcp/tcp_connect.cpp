// How the tcp endpoint gets its connections: one socket per (channel, pair of ranks), whose ends compare what links
// they expect. No payload moves here.
#include "base/check.hpp"
#include "base/log.hpp"
#include "transport/tcp/tcp_endpoint.hpp"

namespace twohop {
namespace tcp {

TcpEndpoint::TcpEndpoint(int rank, std::unique_ptr<PairConnector> connector, Fd epoll)
    : rank_(rank), connector_(std::move(connector)), address_(connector_->address()), epoll_(std::move(epoll)) {}

Result<> TcpEndpoint::open_connections(std::vector<Pair> pairs) {
  out_connection_.resize(out_.size());
  in_place_.resize(in_.size());
  for (Pair& p : pairs) {
    Connection& c = connections_.emplace_back(std::move(p.fd), p.peer, p.channel, p.address, p.out, p.in, &counters_);
    for (OutLink* l : p.out) out_connection_[static_cast<size_t>(l - out_.data())] = &c;
    for (size_t i = 0; i < p.in.size(); ++i) in_place_[static_cast<size_t>(p.in[i] - in_.data())] = {&c, i};
    epoll_event event{};
    event.events = c.epoll_interest = EPOLLIN;
    event.data.ptr = &c;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, c.fd(), &event) != 0)
      return system_error(errno, "cannot await input of {}", c.name());
  }
  dirty_.reserve(connections_.size());
  events_.resize(connections_.size());
  return {};
}

Result<> TcpEndpoint::connect(std::vector<OutLink> out, std::vector<InLink> in, std::span<const Bytes> all_addresses,
                              Deadline deadline, int stop_fd) {
  TWOHOP_CHECK(connector_, "connect() is called twice at rank {}", rank_);
  out_ = std::move(out);
  in_ = std::move(in);
  std::vector<Pair> pairs = group_links(rank_, out_, in_, true);
  if (auto r = connector_->connect(pairs, all_addresses, agree_on_links, deadline, stop_fd); !r) return die(r.error());
  connector_.reset();
  if (auto r = open_connections(std::move(pairs)); !r) return die(r.error());
  log_debug("rank {}: tcp endpoint with {} connections, {} out and {} in links", rank_, connections_.size(),
            out_.size(), in_.size());
  return {};
}

}  // namespace tcp

Result<std::unique_ptr<Endpoint>> make_tcp_endpoint(int rank, const std::string& ifname, const Secret& secret) {
  auto connector = tcp::PairConnector::create(rank, ifname, secret);
  if (!connector) return connector.error();
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_error(errno, "epoll_create1 for the tcp endpoint");
  return std::unique_ptr<Endpoint>(std::make_unique<tcp::TcpEndpoint>(rank, std::move(*connector), std::move(epoll)));
}

}  // namespace twohop
