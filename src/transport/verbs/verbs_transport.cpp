// See verbs_transport.hpp. What the variables mean to this transport.
#include "transport/verbs/verbs_transport.hpp"

#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

Result<VerbsConfig> verbs_config(const Options& o) {
  VerbsConfig c;
  auto hcas = HcaList::parse(o.ib_hca);
  if (!hcas) return hcas.error();
  c.rails.hcas = std::move(*hcas);
  if (o.nrails > 0) c.rails.max_rails = static_cast<size_t>(o.nrails);
  c.rails.gid.index = static_cast<int>(o.ib_gid_index);
  c.rails.gid.roce_version = static_cast<int>(o.ib_roce_version_num);
  c.rails.gid.family = o.ib_addr_family == "AF_INET6"  ? Family::kIpv6
                       : o.ib_addr_family == "AF_INET" ? Family::kIpv4
                                                       : Family::kAny;
  c.rails.gid.range = o.ib_addr_range;
  c.rails.mtu_bytes = static_cast<int>(o.ib_mtu);
  c.rails.ordering = static_cast<RelaxedOrdering>(o.ib_pci_relaxed_ordering);
  if (o.ib_mtu != 0 && mtu_bytes(mtu_from_bytes(c.rails.mtu_bytes)) != o.ib_mtu)
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

}  // namespace

Result<std::unique_ptr<Endpoint>> make_endpoint(int rank, const Options& o, const Secret& secret,
                                                const RailPlan& plan) {
  auto config = verbs_config(o);
  if (!config) return config.error();
  config->rails.plan = plan;
  config->library = kSystemLibrary;
  return make_verbs_endpoint(rank, o.socket_ifname, secret, std::move(*config));
}

Result<std::unique_ptr<Endpoint>> make_softnic_endpoint(int rank, const Options& o, const Secret& secret) {
  auto config = verbs_config(o);
  if (!config) return config.error();
  auto library = find_softnic();
  if (!library) return library.error();
  config->name = "softnic";
  config->library = std::move(*library);
  return make_verbs_endpoint(rank, o.socket_ifname, secret, std::move(*config));
}

}  // namespace twohop::verbs
