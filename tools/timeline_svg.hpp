// A call as a picture: what the ranks of one node and its rails do when.
#pragma once

#include <string>

#include "collectives/plan/model/predictor.hpp"

namespace twohop::cli {

/// `prediction` with its timeline.
std::string timeline_svg(const CostProgram& program, const Prediction& prediction, const std::string& title);

}  // namespace twohop::cli
