// See verbs_rail.hpp.
#include "transport/verbs/verbs_rail.hpp"

#include <algorithm>
#include <cerrno>

#include "base/log.hpp"

namespace twohop::verbs {
namespace {

/// A port that may become a rail, and its place in the user's list.
struct Candidate {
  std::shared_ptr<Context> context;
  int port = 1;
  ibv_port_attr attributes{};
  ibv_device_attr device{};
  size_t order = 0;
  std::string name() const { return fmt::format("{}:{}", context->name(), port); }
};

/// The devices found, and why ports were passed over.
struct Search {
  std::vector<Candidate> usable;
  std::string passed_over;
  void pass_over(const std::string& name, const std::string& why) {
    passed_over += fmt::format("{}{} {}", passed_over.empty() ? "" : "; ", name, why);
  }
};

void look_at_ports(Search& search, std::shared_ptr<Context> context, const RailWish& wish) {
  const VerbsApi& api = context->api();
  Candidate c;
  c.context = context;
  if (const int failed = api.query_device(context->get(), &c.device)) {
    search.pass_over(context->name(), fmt::format("cannot be queried ({})", std::strerror(failed)));
    return;
  }
  for (c.port = 1; c.port <= c.device.phys_port_cnt; ++c.port) {
    c.attributes = {};
    // The function writes the older, shorter structure.
    const int failed = api.query_port(context->get(), static_cast<uint8_t>(c.port),
                                      reinterpret_cast<_compat_ibv_port_attr*>(&c.attributes));
    c.order = wish.hcas.order(context->name(), c.port);
    if (failed)
      search.pass_over(c.name(), fmt::format("cannot be queried ({})", std::strerror(failed)));
    else if (!wish.hcas.allows(context->name(), c.port))
      search.pass_over(c.name(), "is not in TWOHOP_IB_HCA");
    else if (c.attributes.state != IBV_PORT_ACTIVE)
      search.pass_over(c.name(), fmt::format("is not active (port state {}): check cable and switch",
                                             static_cast<int>(c.attributes.state)));
    else
      search.usable.push_back(c);
  }
}

Result<Search> search_devices(const std::shared_ptr<const VerbsLibrary>& library, const RailWish& wish) {
  Search search;
  int count = 0;
  ibv_device** devices = library->api().get_device_list(&count);
  if (!devices) return system_error(errno, "{} finds no RDMA devices (is ib_uverbs loaded?)", library->file());
  for (int i = 0; i < count; ++i) {
    auto context = Context::open(library, devices[i]);
    if (context)
      look_at_ports(search, std::move(*context), wish);
    else
      search.pass_over(library->api().get_device_name(devices[i]), context.error().message);
  }
  library->api().free_device_list(devices);
  if (count == 0) search.passed_over = "there is no RDMA device";
  return search;
}

ibv_mtu wanted_mtu(const Candidate& c, const RailWish& wish) {
  if (wish.mtu_bytes == 0) return c.attributes.active_mtu;
  return std::min(c.attributes.active_mtu, mtu_from_bytes(wish.mtu_bytes));
}

Result<Rail> open_rail(const Candidate& c, const RailWish& wish) {
  Rail rail;
  rail.name = c.name();
  rail.context = c.context;
  rail.port = static_cast<uint8_t>(c.port);
  rail.ethernet = c.attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  rail.lid = c.attributes.lid;
  rail.mtu = wanted_mtu(c, wish);
  rail.max_requests = static_cast<uint32_t>(c.device.max_qp_wr);
  rail.max_completions = c.device.max_cqe;
  const auto table = read_gids(*c.context, c.port, c.attributes.gid_tbl_len);
  if (rail.ethernet || !table.empty()) {
    GidWish gid = wish.gid;
    if (!rail.ethernet) gid.index = 0;  // LIDs are what counts; the first GID is for messages
    auto chosen = choose_gid(table, gid, rail.name);
    if (!chosen && rail.ethernet) return chosen.error();
    if (chosen) rail.gid = *chosen;
    log_debug("{}: GIDs {}; chosen {}", rail.name, describe(table), rail.gid.index);
  }
  auto pd = ProtectionDomain::create(c.context);
  if (!pd) return pd.error();
  rail.pd = std::move(*pd);
  auto channel = CompletionChannel::create(c.context);
  if (!channel) return channel.error();
  rail.channel = std::move(*channel);
  rail.counters_at_start = read_hw_counters(c.context->get()->device->ibdev_path, c.port);
  return rail;
}

}  // namespace

const char* link_layer_name(bool ethernet) {
  return ethernet ? "RoCE" : "InfiniBand";
}

Result<std::vector<Rail>> open_rails(const std::shared_ptr<const VerbsLibrary>& library, const RailWish& wish) {
  auto search = search_devices(library, wish);
  if (!search) return search.error();
  std::vector<Candidate>& usable = search->usable;
  std::stable_sort(usable.begin(), usable.end(),
                   [](const Candidate& a, const Candidate& b) { return a.order < b.order; });
  if (usable.size() > wish.max_rails) usable.resize(wish.max_rails);
  std::vector<Rail> rails;
  for (const Candidate& c : usable) {
    auto rail = open_rail(c, wish);
    if (!rail) return rail.error();
    rails.push_back(std::move(*rail));
  }
  if (rails.empty()) return make_error(twohopSystemError, "no usable RDMA port: {}", search->passed_over);
  return rails;
}

}  // namespace twohop::verbs
