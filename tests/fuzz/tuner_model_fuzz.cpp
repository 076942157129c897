// Files of the planner: network models and tables of the tuner. What is accepted comes back the same.
#include "collectives/plan/model/network_model.hpp"
#include "collectives/plan/model/tuner.hpp"
#include "fuzz/input.hpp"

namespace twohop {
namespace {

void model(std::string_view text) {
  (void)parse_model(text);
}

void table(std::string_view text) {
  const auto read = parse_tuner_table(text);
  if (!read) return;
  const std::string written = format_tuner_table(*read);
  const auto again = parse_tuner_table(written);
  if (!again) fuzz::fail("a table that was written is refused", again.error().message + "\n" + written);
  if (format_tuner_table(*again) != written) fuzz::fail("a table comes back different", written);
  for (uint64_t bytes : {uint64_t{0}, uint64_t{1} << 20, ~uint64_t{0}}) (void)read->find(Collective::kAllReduce, bytes);
}

}  // namespace
}  // namespace twohop

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  twohop::fuzz::Input input(data, size);
  const bool is_model = input.u8() % 2 == 0;
  is_model ? twohop::model(input.text()) : twohop::table(input.text());
  return 0;
}
