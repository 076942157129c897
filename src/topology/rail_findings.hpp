// What is to be said about a machine and the rails chosen for it: what costs speed, what looks broken, what could not
// be decided. Adds to the choice's warnings and notes; changes nothing else.
#pragma once

#include <vector>

#include "topology/rails.hpp"

namespace twohop::topology {

void add_findings(const Machine& machine, const Paths& paths, const UsablePorts& usable, RailChoice& choice);

/// The vendors of the GPUs that a job could use; more than one cannot work together. Graphics that are part of a
/// processor do not count beside others.
std::vector<Vendor> vendors(const Machine& machine);

}  // namespace twohop::topology
