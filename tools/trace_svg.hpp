// A traced call as a picture: what each rank copies, reduces and waits for, and when its puts are on the way.
#pragma once

#include <string>
#include <vector>

#include "trace_file.hpp"

namespace twohop::cli {

/// Of call number `call`; files of ranks that are not in it are left out.
std::string trace_svg(const std::vector<TraceFile>& files, uint64_t call);

}  // namespace twohop::cli
