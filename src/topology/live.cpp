// Asks libhwloc for the live machine, and hands its XML to the reader of such files: one reader, one set of rules.
#include "topology/live.hpp"

#include <dlfcn.h>
#include <hwloc.h>

#include <array>
#include <cerrno>
#include <memory>

#include "topology/finish.hpp"
#include "topology/hwloc_xml.hpp"
#include "topology/nvml.hpp"
#include "topology/sysfs.hpp"

namespace twohop::topology {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

/// GPU runtimes must not be started by looking at the machine: NVML is asked apart, and it makes no contexts.
void leave_out_gpu_runtimes(hwloc_topology_t topology) {
  constexpr std::array kComponents = {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl"};
  for (const char* component : kComponents)
    (void)hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
}

void keep_what_is_read(hwloc_topology_t topology) {
  hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  // Including the CPUs that a container's or a job's cpuset leaves out: the machine is described, not the share of it.
  hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
}

/// hwloc unloads its PCI plug-in after each use, and libpciaccess with it, which never gives back the names of devices
/// that it has read (600 KB). Kept loaded, it reads them once.
void keep_pci_names() {
  static void* const kept = dlopen("libpciaccess.so.0", RTLD_LAZY | RTLD_NODELETE);
  (void)kept;  // where hwloc does without it there is nothing to keep
}

}  // namespace

Result<std::string> live_hwloc_xml() {
  keep_pci_names();
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return system_error(errno, "hwloc cannot be initialised");
  const Topology topology(raw);
  leave_out_gpu_runtimes(raw);
  keep_what_is_read(raw);
  if (hwloc_topology_load(raw) != 0) return system_error(errno, "hwloc cannot read this machine");
  char* text = nullptr;
  int length = 0;
  if (hwloc_topology_export_xmlbuffer(raw, &text, &length, 0) != 0)
    return system_error(errno, "hwloc cannot write this machine as XML");
  std::string xml(text, length > 0 ? static_cast<size_t>(length) - 1 : 0);  // its length counts the final NUL
  hwloc_free_xmlbuffer(raw, text);
  return xml;
}

Result<Machine> read_live_machine(const LiveOptions& options) {
  const auto xml = live_hwloc_xml();
  if (!xml) return xml.error();
  auto machine = read_hwloc_xml(*xml, "this machine");
  if (!machine) return machine.error();
  machine->kind = SourceKind::kLive;
  add_sysfs(*machine, options.sys_root);
  if (!options.nvml_library.empty()) add_nvml(*machine, options.nvml_library);
  number_nets(*machine);
  name_gpus(*machine);
  sort_gpus(*machine);
  note_missing_links(*machine);
  return machine;
}

}  // namespace twohop::topology
