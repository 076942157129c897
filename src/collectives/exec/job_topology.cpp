// See job_topology.hpp.
#include "collectives/exec/job_topology.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/file_name.hpp"
#include "base/log.hpp"
#include "base/socket.hpp"
#include "topology/compare.hpp"
#include "topology/live.hpp"
#include "topology/load.hpp"

namespace twohop {

using topology::kNone;

namespace {

constexpr size_t kMaxReasons = 16;  // that a rank sends along

topology::Machine read_this_machine() {
  auto live = topology::read_live_machine();
  if (live) return std::move(*live);
  log_info("the machine's topology cannot be read ({}): rails are taken as they come", live.error().message);
  return {};
}

Result<topology::Machine> read_machine(const Options& options) {
  topology::Machine live = read_this_machine();
  if (options.topo_file.empty()) return live;
  auto file = topology::load_machine(options.topo_file);
  if (!file) {
    Error e = file.error();
    e.message = fmt::format("TWOHOP_TOPO_FILE: {}", e.message);
    return e;
  }
  return topology::reconcile(*file, live).machine;
}

std::shared_ptr<const LocalTopology> local_topology(topology::Machine machine) {
  auto local = std::make_shared<LocalTopology>();
  local->machine = std::move(machine);
  local->paths = topology::find_paths(local->machine);
  local->choice = topology::choose_rails(local->machine, local->paths);
  return local;
}

/// What this process knows, by the file it is from; "" is the live machine.
struct Known {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const LocalTopology>> by_file;

  static Known& of_process() {
    static Known& known = *new Known;
    return known;
  }
};

/// 0 where it is not known: what a virtual interface says of itself is not true of what it sends through.
double speed_of_socket_interface(const Options& options, const topology::Machine& machine) {
  const auto interface = choose_interface(options.socket_ifname);
  if (!interface) return 0;  // who needs it says so
  for (const topology::NetPort& net : machine.nets) {
    const bool real = net.kind == topology::NetKind::kRdma || net.kind == topology::NetKind::kPhysical;
    if (real && (net.name == interface->name || net.interface == interface->name)) return net.gbit_per_s;
  }
  return 0;
}

/// 0 where one is not known.
double slowest(const std::vector<double>& rates) {
  return rates.empty() ? 0 : *std::min_element(rates.begin(), rates.end());
}

}  // namespace

Result<std::shared_ptr<const LocalTopology>> learn_topology(const Options& options) {
  Known& known = Known::of_process();
  std::lock_guard lock(known.mutex);
  const auto it = known.by_file.find(options.topo_file);
  if (it != known.by_file.end()) return it->second;
  auto machine = read_machine(options);
  if (!machine) return machine.error();
  return known.by_file.emplace(options.topo_file, local_topology(std::move(*machine))).first->second;
}

bool knows_topology() {
  Known& known = Known::of_process();
  std::lock_guard lock(known.mutex);
  return known.by_file.contains("");
}

void know_topology(topology::Machine machine) {
  Known& known = Known::of_process();
  std::lock_guard lock(known.mutex);
  if (!known.by_file.contains("")) known.by_file.emplace("", local_topology(std::move(machine)));
}

Result<JobTopology> JobTopology::learn(const Options& options, const std::string& machine_id) {
  auto local = learn_topology(options);
  if (!local) return local.error();
  JobTopology topology;
  topology.options_ = options;
  topology.local_ = std::move(*local);
  topology.machine_id_ = machine_id;
  return topology;
}

JobTopology::Json JobTopology::message() const {
  topology::NodeSummary s = topology::summarize(local_->machine, local_->choice, host_name());
  s.rejected_ports.resize(std::min(s.rejected_ports.size(), kMaxReasons));
  s.rejected_reasons.resize(s.rejected_ports.size());
  return {{"machine", machine_id_},
          {"host", s.host},
          {"fingerprint", s.fingerprint},
          {"summary", s.summary},
          {"rails", s.rails},
          {"speeds", s.gbit_per_s},
          {"socket speed", speed_of_socket_interface(options_, local_->machine)},
          {"rejected", s.rejected_ports},
          {"reasons", s.rejected_reasons},
          {"cpus on", numa_of_this_process(local_->machine)}};
}

Result<> JobTopology::settle(int rank, const std::vector<Json>& all) {
  try {
    return settle_checked(rank, all);
  } catch (const Json::exception& e) {
    return make_error(twohopInternalError, "a rank's message about its machine lacks a field: {}", e.what());
  }
}

/// Machines are numbered by their lowest rank, whose words count for all ranks of the machine.
Result<> JobTopology::settle_checked(int rank, const std::vector<Json>& all) {
  rank_ = rank;
  std::vector<std::string> machines;
  std::vector<topology::NodeSummary> nodes;
  std::vector<int> cpu_numas;
  std::vector<double> rails, sockets;  // their speeds, by machine
  for (size_t r = 0; r < all.size(); ++r) {
    const auto id = all[r].at("machine").get<std::string>();
    if (id == machine_id_) {
      if (static_cast<int>(r) == rank) local_rank_ = static_cast<int>(cpu_numas.size());
      const int numa = all[r].at("cpus on").get<int>();
      const auto known = static_cast<int>(local_->machine.numas.size());
      cpu_numas.push_back(numa >= 0 && numa < known ? numa : kNone);
    }
    if (std::find(machines.begin(), machines.end(), id) != machines.end()) continue;
    if (id == machine_id_) node_ = machines.size();
    machines.push_back(id);
    topology::NodeSummary& s = nodes.emplace_back();
    all[r].at("host").get_to(s.host);
    all[r].at("fingerprint").get_to(s.fingerprint);
    all[r].at("summary").get_to(s.summary);
    all[r].at("rails").get_to(s.rails);
    all[r].at("speeds").get_to(s.gbit_per_s);
    rails.push_back(slowest(s.gbit_per_s));
    sockets.push_back(all[r].at("socket speed").get<double>());
    all[r].at("rejected").get_to(s.rejected_ports);
    all[r].at("reasons").get_to(s.rejected_reasons);
  }
  job_ = topology::number_rails(nodes);
  rail_gbit_per_s_ = slowest(rails);
  socket_gbit_per_s_ = slowest(sockets);
  const auto places = topology::place_ranks(local_->machine, local_->choice, cpu_numas);
  if (places.empty()) return {};
  place_ = places[static_cast<size_t>(local_rank_)];
  return {};
}

RailPlan JobTopology::rail_plan() const {
  RailPlan plan;
  if (!local_->choice.verbs) return plan;
  const std::vector<int>& numbers = job_.number[node_];
  for (size_t i = 0; i < place_.rails.size(); ++i) {
    const auto rail = static_cast<size_t>(place_.rails[i]);
    const topology::NetPort& port = local_->machine.nets[local_->choice.rails[rail].net];
    plan.push_back({port.name, port.port, rail < numbers.size() ? numbers[rail] : -1, i < place_.own});
  }
  return plan;
}

NumaBinding JobTopology::binding() const {
  return options_.numa_bind == 0 ? NumaBinding{} : numa_binding(local_->machine, place_.numa);
}

Result<> JobTopology::report() const {
  if (rank_ == 0)
    for (const std::string& finding : job_.findings) log_info("{}", finding);
  if (local_rank_ != 0) return {};
  const topology::Machine& m = local_->machine;
  log_info("{}: {} NUMA nodes, {} GPUs, {} rails", m.source, m.numas.size(), m.gpus.size(),
           local_->choice.rails.size());
  const bool first = !local_->told.test_and_set();
  for (const topology::Note& note : m.notes)
    if (first) log(note.level == topology::Note::Level::kWarning ? LogLevel::kWarn : LogLevel::kInfo, "{}", note.text);
  if (options_.topo_dump_file.empty()) return {};
  return topology::dump_machine(m, expand_file_name(options_.topo_dump_file, rank_));
}

}  // namespace twohop
