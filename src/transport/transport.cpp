// See transport.hpp.
#include "transport/transport.hpp"

#include "base/log.hpp"
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop {
namespace {

Result<verbs::VerbsConfig> verbs_config(const Options& o) {
  verbs::VerbsConfig c;
  auto hcas = verbs::HcaList::parse(o.ib_hca);
  if (!hcas) return hcas.error();
  c.rails.hcas = std::move(*hcas);
  if (o.nrails > 0) c.rails.max_rails = static_cast<size_t>(o.nrails);
  c.rails.gid.index = static_cast<int>(o.ib_gid_index);
  c.rails.gid.roce_version = static_cast<int>(o.ib_roce_version_num);
  c.rails.gid.family = o.ib_addr_family == "AF_INET6" ? AF_INET6 : AF_INET;
  c.rails.gid.range = o.ib_addr_range;
  c.rails.mtu_bytes = static_cast<int>(o.ib_mtu);
  c.rails.ordering = static_cast<verbs::RelaxedOrdering>(o.ib_pci_relaxed_ordering);
  if (o.ib_mtu != 0 && verbs::mtu_bytes(verbs::mtu_from_bytes(c.rails.mtu_bytes)) != o.ib_mtu)
    return make_error(twohopInvalidArgument, "TWOHOP_IB_MTU={}: accepted are 256, 512, 1024, 2048, 4096, or 0",
                      o.ib_mtu);
  c.tuning = {.timeout = static_cast<uint8_t>(o.ib_timeout),
              .retry_count = static_cast<uint8_t>(o.ib_retry_cnt),
              .traffic_class = static_cast<uint8_t>(o.ib_tc),
              .service_level = static_cast<uint8_t>(o.ib_sl),
              .pkey_index = static_cast<uint16_t>(o.ib_pkey)};
  c.timeout_stagger = static_cast<int>(o.ib_timeout_stagger);
  c.qps_per_connection = static_cast<size_t>(o.ib_qps_per_connection);
  c.split = o.ib_split_data_on_qps != 0;
  c.rules.batch = static_cast<uint32_t>(o.doorbell_batch);
  c.rules.hold_bytes = static_cast<uint64_t>(o.hold_bytes);
  return c;
}

Result<std::unique_ptr<Endpoint>> make_verbs(int rank, const Options& o, const Secret& secret) {
  auto config = verbs_config(o);
  if (!config) return config.error();
  config->library = verbs::kSystemLibrary;
  return verbs::make_verbs_endpoint(rank, o.socket_ifname, secret, std::move(*config));
}

Result<std::unique_ptr<Endpoint>> make_softnic(int rank, const Options& o, const Secret& secret) {
  auto config = verbs_config(o);
  if (!config) return config.error();
  auto library = verbs::find_softnic();
  if (!library) return library.error();
  config->name = "softnic";
  config->library = std::move(*library);
  return verbs::make_verbs_endpoint(rank, o.socket_ifname, secret, std::move(*config));
}

}  // namespace

Result<std::unique_ptr<Endpoint>> make_endpoint(int rank, const Options& o, const Secret& secret) {
  if (o.net == "tcp") return make_tcp_endpoint(rank, o.socket_ifname, secret);
  if (o.net == "softnic") return make_softnic(rank, o, secret);
  auto endpoint = make_verbs(rank, o, secret);
  if (endpoint) return endpoint;
  Error why = endpoint.error();
  if (o.net == "verbs") {
    why.message = fmt::format("TWOHOP_NET=verbs: {}; TWOHOP_NET=tcp works without an RDMA device", why.message);
    return why;
  }
  // What the user has asked for of the devices and cannot have is an error; that there are none is not.
  if (why.code == twohopInvalidArgument || !o.ib_hca.empty()) return why;
  log_info("rank {}: data goes over tcp: {}", rank, why.message);
  return make_tcp_endpoint(rank, o.socket_ifname, secret);
}

}  // namespace twohop
