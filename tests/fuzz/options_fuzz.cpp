// The environment: variables with any value, and the small languages inside some of them.
#include "base/options.hpp"
#include "base/socket.hpp"
#include "collectives/plan/selection.hpp"
#include "fuzz/input.hpp"
#include "transport/verbs/verbs_gid.hpp"
#include "transport/verbs/verbs_hca_list.hpp"

namespace twohop {
namespace {

/// A line is a variable.
void environment(const std::string& text) {
  Environment variables;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    variables.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::vector<std::string> warnings;
  const auto parsed = parse_options(variables, &warnings);
  if (!parsed && parsed.error().message.empty()) fuzz::fail("an error without a message");
  (void)option_values(variables);
  (void)parse_launcher_env(variables);
}

void hca_list(const std::string& text) {
  const auto list = verbs::HcaList::parse(text);
  if (!list) return;
  (void)list->allows("mlx5_0", 1);
  (void)list->order("mlx5_0", 1);
  (void)list->unmatched({{"mlx5_0", 1}, {"mlx5_10", 2}});
}

void address_range(const std::string& text) {
  verbs::GidEntry v4{}, v6{};
  v4.gid.raw[10] = v4.gid.raw[11] = 0xff;
  v4.gid.raw[12] = 10;
  v4.type = v6.type = verbs::GidType::kRoceV2;
  v6.gid.raw[0] = 0xfd;
  verbs::GidWish wish;
  wish.range = text;
  const auto found = verbs::gid_candidates({v4, v6}, wish, "mlx5_0:1");
  if (found && found->empty()) fuzz::fail("an accepted range without an address");
}

void algorithms(const std::string& text) {
  const auto selection = Selection::parse(text);
  if (selection) (void)selection->choose(make_cluster({0, 0, 1, 1}), Collective::kAllReduce, 1 << 20);
}

void interfaces(const std::string& text) {
  (void)choose_interface(text);
}

}  // namespace
}  // namespace twohop

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static constexpr void (*kReaders[])(const std::string&) = {
      twohop::environment, twohop::hca_list, twohop::address_range, twohop::algorithms, twohop::interfaces};
  twohop::fuzz::Input input(data, size);
  const auto reader = kReaders[input.below(std::size(kReaders))];
  reader(std::string(input.text()));
  return 0;
}
