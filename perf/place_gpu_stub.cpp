// --device where the programs are built without CUDA.
#include "place.hpp"

namespace twohop::perf {

std::variant<std::unique_ptr<Place>, std::string> gpu_place(int) {
  return "it was built without CUDA (TWOHOP_CUDA)";
}

}  // namespace twohop::perf
