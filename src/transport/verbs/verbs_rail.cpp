// See verbs_rail.hpp.
#include "transport/verbs/verbs_rail.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

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
  bool ethernet() const { return attributes.link_layer == IBV_LINK_LAYER_ETHERNET; }
};

/// The devices found, and why ports were passed over.
struct Search {
  std::vector<Candidate> usable;
  std::vector<HcaPort> ports;  // of all devices that could be opened
  int devices = 0, opened = 0;
  int open_errno = 0;  // of a device that could not be opened
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
    search.ports.push_back({context->name(), c.port});
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
  // A kernel without RDMA is how most machines are, not a fault of theirs.
  if (!devices && errno == ENOSYS)
    return make_error(twohopSystemError, "{} finds no RDMA devices: ib_uverbs is not loaded", library->file());
  if (!devices) return system_error(errno, "{} finds no RDMA devices (is ib_uverbs loaded?)", library->file());
  search.devices = count;
  for (int i = 0; i < count; ++i) {
    auto context = Context::open(library, devices[i]);
    if (context) {
      ++search.opened;
      look_at_ports(search, std::move(*context), wish);
    } else {
      search.open_errno = context.error().sys_errno;
      search.pass_over(library->api().get_device_name(devices[i]), context.error().message);
    }
  }
  library->api().free_device_list(devices);
  return search;
}

/// What is not InfiniBand goes where some ports are: storage and management use it, and it never reaches the fabric.
void keep_one_kind(Search& search) {
  const auto infiniband = [](const Candidate& c) { return !c.ethernet(); };
  const auto first = std::find_if(search.usable.begin(), search.usable.end(), infiniband);
  if (first == search.usable.end()) return;
  const std::string reason =
      fmt::format("is RoCE, {} is InfiniBand: these are never mixed; to use it name RoCE ports only in TWOHOP_IB_HCA",
                  first->name());
  for (const Candidate& c : search.usable)
    if (!infiniband(c)) search.pass_over(c.name(), reason);
  std::erase_if(search.usable, [&](const Candidate& c) { return !infiniband(c); });
}

void warn_of_unknown_names(const Search& search, const HcaList& wish) {
  const std::vector<std::string> unknown = wish.unmatched(search.ports);
  if (unknown.empty() || search.ports.empty()) return;
  std::string there;
  for (const HcaPort& p : search.ports) there += fmt::format("{}{}:{}", there.empty() ? "" : ", ", p.device, p.port);
  for (const std::string& name : unknown)
    log_warn("TWOHOP_IB_HCA: \"{}\" is no port of this host; there are {}", name, there);
}

const PlannedRail* planned(const RailPlan& plan, const Candidate& c) {
  const auto it = std::find_if(plan.begin(), plan.end(),
                               [&](const PlannedRail& r) { return r.device == c.context->name() && r.port == c.port; });
  return it == plan.end() ? nullptr : &*it;
}

/// Where the user names no devices, the topology's choice and order. One that fits none of the ports (a file of another
/// machine) is no reason to go without.
void follow_plan(Search& search, const RailWish& wish) {
  if (!wish.hcas.empty() || wish.plan.empty()) return;
  const auto is_planned = [&](const Candidate& c) { return planned(wish.plan, c) != nullptr; };
  if (std::none_of(search.usable.begin(), search.usable.end(), is_planned)) {
    log_info("none of the rails that the topology names ({}, ...) is here: all active ports are used",
             wish.plan.front().device);
    return;
  }
  for (Candidate& c : search.usable) {
    if (const PlannedRail* rail = planned(wish.plan, c))
      c.order = static_cast<size_t>(rail - wish.plan.data());
    else
      search.pass_over(c.name(),
                       "is no rail by the machine's topology (twohop topo says why; TWOHOP_IB_HCA overrides)");
  }
  std::erase_if(search.usable, [&](const Candidate& c) { return !is_planned(c); });
}

Error nothing_usable(const Search& search) {
  Error e = make_error(twohopSystemError, "no usable RDMA port: {}", search.passed_over);
  if (search.devices > 0 && search.opened == 0) {
    e.message = fmt::format("{} RDMA devices, none of which can be opened: {}", search.devices, search.passed_over);
    e.sys_errno = search.open_errno;
  }
  if (search.devices > 0) return e;
  const std::string hidden = devices_in_sysfs("/sys/class/infiniband");
  e.message = "there is no RDMA device";
  if (hidden.empty()) return e;
  e.message = fmt::format(
      "{} in sysfs, none of which can be opened: /dev/infiniband/uverbs* is missing here (in a container pass --device "
      "/dev/infiniband)",
      hidden);
  e.sys_errno = ENOENT;
  return e;
}

ibv_mtu wanted_mtu(const Candidate& c, const RailWish& wish) {
  if (wish.mtu_bytes == 0) return c.attributes.active_mtu;
  return std::min(c.attributes.active_mtu, mtu_from_bytes(wish.mtu_bytes));
}

/// InfiniBand goes by LID; of its GIDs the first names the subnet.
Result<> find_gids(Rail& rail, int table_length, const GidWish& wish) {
  const auto table = read_gids(*rail.context, rail.port, rail.ethernet ? table_length : std::min(table_length, 1));
  log_info("{} ({}, MTU {}{}) has the GIDs {}", rail.name, link_layer_name(rail.ethernet), mtu_bytes(rail.mtu),
           rail.ethernet ? "" : fmt::format(", LID {}", rail.lid), describe(table));
  if (!rail.ethernet) {
    for (const GidEntry& e : table) rail.gids.push_back({e, 0});
    if (rail.lid != 0) return {};
    return make_error(twohopSystemError, "{} is active and has no LID: does a subnet manager run?", rail.name);
  }
  auto candidates = gid_candidates(table, wish, rail.name);
  if (!candidates) return candidates.error();
  rail.gids = std::move(*candidates);
  return {};
}

Result<Rail> open_rail(const Candidate& c, const RailWish& wish) {
  Rail rail;
  rail.name = c.name();
  if (const PlannedRail* plan = planned(wish.plan, c)) {
    rail.number = plan->number;
    rail.own = plan->own || !wish.hcas.empty();
  }
  rail.context = c.context;
  rail.port = static_cast<uint8_t>(c.port);
  rail.ethernet = c.ethernet();
  rail.lid = c.attributes.lid;
  rail.mtu = wanted_mtu(c, wish);
  rail.max_requests = static_cast<uint32_t>(c.device.max_qp_wr);
  rail.max_completions = c.device.max_cqe;
  if (auto found = find_gids(rail, c.attributes.gid_tbl_len, wish.gid); !found) return found.error();
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

bool port_is_active(const Rail& rail) {
  ibv_port_attr now{};
  // The function writes the older, shorter structure.
  const int failed =
      rail.context->api().query_port(rail.context->get(), rail.port, reinterpret_cast<_compat_ibv_port_attr*>(&now));
  return failed == 0 && now.state == IBV_PORT_ACTIVE;
}

const char* link_layer_name(bool ethernet) {
  return ethernet ? "RoCE" : "InfiniBand";
}

std::string devices_in_sysfs(const std::string& folder) {
  std::error_code failed;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed))
    names.push_back(entry.path().filename().string());
  if (names.empty()) return "";
  std::sort(names.begin(), names.end());
  return fmt::format("{} RDMA devices ({})", names.size(), fmt::join(names, ", "));
}

Result<std::vector<Rail>> open_rails(const std::shared_ptr<const VerbsLibrary>& library, const RailWish& wish) {
  auto search = search_devices(library, wish);
  if (!search) return search.error();
  warn_of_unknown_names(*search, wish.hcas);
  follow_plan(*search, wish);
  keep_one_kind(*search);
  std::vector<Candidate>& usable = search->usable;
  std::stable_sort(usable.begin(), usable.end(),
                   [](const Candidate& a, const Candidate& b) { return a.order < b.order; });
  if (usable.size() > wish.max_rails) usable.resize(wish.max_rails);
  if (usable.empty()) return nothing_usable(*search);
  if (!search->passed_over.empty()) log_info("RDMA ports that are not used: {}", search->passed_over);
  std::vector<Rail> rails;
  for (const Candidate& c : usable) {
    auto rail = open_rail(c, wish);
    if (!rail) return rail.error();
    rails.push_back(std::move(*rail));
  }
  return rails;
}

}  // namespace twohop::verbs
