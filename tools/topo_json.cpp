// `twohop topo --json`.
#include <nlohmann/json.hpp>

#include "topo_report.hpp"
#include "topology/bus_id.hpp"
#include "topology/cpu_set.hpp"
#include "topology/enums.hpp"
#include "topology/json.hpp"

namespace twohop::cli {
namespace {

using namespace topology;
using Json = nlohmann::ordered_json;

Json names(const TopoReport& r, const std::vector<int>& nets) {
  Json list = Json::array();
  for (int n : nets) list.push_back(port_name(r.machine, n));
  return list;
}

Json numa_number(const Machine& m, int numa) {
  return numa == kNone || m.numas[numa].os_index == kNone ? Json() : Json(m.numas[numa].os_index);
}

Json bus(const Machine& m, int pci) {
  return pci == kNone ? Json() : Json(to_string(m.pci[pci].bus));
}

Json numas(const Machine& m) {
  Json list = Json::array();
  for (size_t n = 0; n < m.numas.size(); ++n)
    list.push_back({{"number", numa_number(m, static_cast<int>(n))}, {"cpus", to_cpu_list(m.numas[n].cpus)}});
  return list;
}

Json gpus(const TopoReport& r) {
  Json list = Json::array();
  for (int g : by_index(r.machine)) {
    const Gpu& gpu = r.machine.gpus[g];
    const GpuRails& a = r.choice.assignment[g];
    list.push_back({{"name", gpu.name},
                    {"index", gpu.index},
                    {"bus_id", bus(r.machine, gpu.pci)},
                    {"numa", numa_number(r.machine, gpu.numa)},
                    {"vendor", name_of(gpu.vendor)},
                    {"model", gpu.model},
                    {"links", links_text(r.machine, g)},
                    {"rails", a.rails},
                    {"path", a.rails.empty() ? Json() : Json(name_of(a.path))},
                    {"reason", a.reason}});
  }
  return list;
}

Json ports(const TopoReport& r) {
  Json list = Json::array();
  for (size_t n = 0; n < r.machine.nets.size(); ++n) {
    const NetPort& p = r.machine.nets[n];
    const Rail* rail = rail_of(r, static_cast<int>(n));
    list.push_back({{"name", port_name(r.machine, static_cast<int>(n))},
                    {"device", p.name},
                    {"port", p.port},
                    {"interface", p.interface},
                    {"bus_id", bus(r.machine, p.pci)},
                    {"numa", numa_number(r.machine, p.numa)},
                    {"kind", name_of(p.kind)},
                    {"link_layer", name_of(p.layer)},
                    {"state", name_of(p.state)},
                    {"gbit_per_s", p.gbit_per_s},
                    {"rail", rail ? Json(rail->number) : Json()}});
  }
  return list;
}

Json rails(const TopoReport& r) {
  Json list = Json::array();
  for (const Rail& rail : r.choice.rails) {
    const NetPort& p = r.machine.nets[rail.net];
    Json users = Json::array();
    for (int g : rail.gpus) users.push_back(r.machine.gpus[g].name);
    list.push_back({{"number", rail.number},
                    {"port", port_name(r.machine, rail.net)},
                    {"bus_id", bus(r.machine, p.pci)},
                    {"gbit_per_s", p.gbit_per_s},
                    {"usable_by_verbs", r.choice.verbs},
                    {"gpus", users},
                    {"reason", rail.reason}});
  }
  return list;
}

/// GPU name -> names of its ports, in the order of rails.
Json assignment(const TopoReport& r) {
  Json object = Json::object();
  for (int g : by_index(r.machine)) {
    Json list = Json::array();
    for (int n : r.choice.assignment[g].rails) list.push_back(port_name(r.machine, r.choice.rails[n].net));
    object[r.machine.gpus[g].name] = list;
  }
  return object;
}

Json rejected(const TopoReport& r) {
  Json list = Json::array();
  for (const RejectedPort& p : r.choice.rejected)
    list.push_back({{"port", port_name(r.machine, p.net)}, {"reason", p.reason}});
  return list;
}

Json class_of(const Path& path) {
  return path.known ? Json(name_of(path.kind)) : Json();
}

Json gpu_net_paths(const TopoReport& r) {
  Json object = Json::object();
  for (int g : by_index(r.machine)) {
    Json row = Json::object();
    for (size_t n = 0; n < r.machine.nets.size(); ++n)
      row[port_name(r.machine, static_cast<int>(n))] = class_of(r.paths.gpu_net[g][n]);
    object[r.machine.gpus[g].name] = row;
  }
  return object;
}

Json gpu_gpu_paths(const TopoReport& r) {
  Json object = Json::object();
  for (int g : by_index(r.machine)) {
    Json row = Json::object();
    for (int o : by_index(r.machine)) {
      const Path& path = r.paths.gpu_gpu[g][o];
      if (o != g)
        row[r.machine.gpus[o].name] = path.nvlinks > 0 ? Json("NV" + std::to_string(path.nvlinks)) : class_of(path);
    }
    object[r.machine.gpus[g].name] = row;
  }
  return object;
}

}  // namespace

std::string topo_json(const TopoReport& r) {
  const Json all = {{"source", r.machine.source},
                    {"kind", name_of(r.machine.kind)},
                    {"numa_nodes", numas(r.machine)},
                    {"gpus", gpus(r)},
                    {"ports", ports(r)},
                    {"rails", rails(r)},
                    {"assignment", assignment(r)},
                    {"rejected", rejected(r)},
                    {"sockets", names(r, r.choice.sockets)},
                    {"paths", {{"gpu_port", gpu_net_paths(r)}, {"gpu_gpu", gpu_gpu_paths(r)}}},
                    {"warnings", r.choice.warnings},
                    {"notes", r.choice.notes},
                    {"machine", to_json_value(r.machine)}};
  // Names come from files: what is no UTF-8 is replaced, not thrown at.
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace twohop::cli
