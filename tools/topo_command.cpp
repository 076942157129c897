// `twohop topo`: reads a machine, chooses rails, shows both.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "command.hpp"
#include "topo_report.hpp"
#include "topology/live.hpp"
#include "topology/load.hpp"
#include "topology/reconcile.hpp"

namespace twohop::cli {
namespace {

struct TopoOptions {
  std::string file, live_file, svg;
  bool json = false, explain = false, compare_live = false;
};
}  // namespace
}  // namespace twohop::cli
