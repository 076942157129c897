// See transport.hpp.
#include "transport/transport.hpp"

#include "base/log.hpp"
#include "transport/checked_endpoint.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace twohop {

namespace {

Result<std::unique_ptr<Endpoint>> make_network(int rank, const Options& o, const Secret& secret, const RailPlan& plan) {
  if (o.net == "tcp") return make_tcp_endpoint(rank, o.socket_ifname, secret);
  if (o.net == "softnic") return verbs::make_softnic_endpoint(rank, o, secret);
  auto endpoint = verbs::make_endpoint(rank, o, secret, plan);
  if (endpoint) return endpoint;
  Error why = endpoint.error();
  if (o.net == "verbs") {
    why.message = fmt::format("TWOHOP_NET=verbs: {}; TWOHOP_NET=tcp works without an RDMA device", why.message);
    return why;
  }
  // What the user has asked for of the devices and cannot have is an error; that there are none is not.
  if (why.code == twohopInvalidArgument || !o.ib_hca.empty()) return why;
  // Devices that are there and cannot be used are a fault of the set-up; none at all is not.
  const LogLevel level = why.sys_errno != 0 ? LogLevel::kWarn : LogLevel::kInfo;
  log(level, "rank {}: data goes over tcp: {}", rank, why.message);
  return make_tcp_endpoint(rank, o.socket_ifname, secret);
}

}  // namespace

Result<std::unique_ptr<Endpoint>> make_endpoint(int rank, const Options& o, const Secret& secret,
                                                const RailPlan& plan) {
  auto endpoint = make_network(rank, o, secret, plan);
  if (!endpoint || o.check == 0) return endpoint;
  return std::unique_ptr<Endpoint>(std::make_unique<CheckedEndpoint>(std::move(*endpoint)));
}

}  // namespace twohop
