// What NVIDIA's management library knows of its GPUs. It is loaded at run time, since most machines that build or test
// this have none, and its few prototypes are declared in nvml_library.hpp.
#pragma once

#include <span>
#include <string>

#include "topology/machine.hpp"

namespace twohop::topology {

/// Completes a live machine: number, UUID, model and capability of its NVIDIA GPUs, and their NVLinks. GPUs that NVML
/// sees and the PCI tree lacks are added; those that it does not see keep no UUID and come last. Without the library
/// nothing happens; a library that fails leaves a note.
void add_nvml(Machine& machine, const std::string& library);

/// The first of `peers` (UUIDs, as nvidia-smi -L prints them) whose memory the GPU `uuid` cannot read and write, and
/// why; empty where it reaches all, or as far as NVML is not there or does not know.
std::string why_no_peer_access(const std::string& library, const std::string& uuid, std::span<const std::string> peers);

}  // namespace twohop::topology
