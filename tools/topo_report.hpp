// One machine with what follows from it, and the ways in which `twohop topo` shows it.
#pragma once

#include <string>

#include "topology/machine.hpp"
#include "topology/paths.hpp"
#include "topology/rails.hpp"

namespace twohop::cli {

struct TopoReport {
  topology::Machine machine;
  topology::Paths paths;
  topology::RailChoice choice;
};

/// For people. `explain` adds the GPUs' reasons, their ways to each other, and the notes.
std::string topo_text(const TopoReport& report, bool explain);
/// For programs: one JSON object; docs/topology.md lists its members.
std::string topo_json(const TopoReport& report);
/// A picture.
std::string topo_svg(const TopoReport& report);

/// "GPU0, GPU1" and "mlx5_0, mlx5_3".
std::string gpu_list(const TopoReport& report, const std::vector<int>& gpus);
std::string rail_list(const TopoReport& report, const std::vector<int>& rails);
/// "200 Gbit/s"; empty where not known.
std::string speed_text(double gbit_per_s);
/// "18 NVLinks to switches", "4 xGMI": empty without links.
std::string links_text(const topology::Machine& machine, int gpu);
/// The rail of a port; null where it is none.
const topology::Rail* rail_of(const TopoReport& report, int net);

}  // namespace twohop::cli
