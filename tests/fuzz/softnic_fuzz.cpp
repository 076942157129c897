// The variable SOFTNIC. What is accepted keeps to the limits that the device relies on.
#include "fuzz/input.hpp"
#include "softnic/settings.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  twohop::fuzz::Input input(data, size);
  std::string error;
  const auto settings = softnic::parse_settings(input.text(), &error);
  if (!settings && error.empty()) twohop::fuzz::fail("an error without a word");
  if (!settings) return 0;
  if (settings->devices < 1 || settings->devices > softnic::kMaxDevices || settings->host >= softnic::kMaxHosts ||
      settings->gids.empty() || settings->gids.size() > softnic::kMaxGids || settings->infiniband.empty() ||
      !(settings->loss >= 0 && settings->loss < 1) || !(settings->bits_per_s >= 0))
    twohop::fuzz::fail("a setting beyond its limits");
  for (unsigned device = 0; device < softnic::kMaxDevices; ++device)
    (void)settings->net_of(device), (void)settings->is_infiniband(device);
  return 0;
}
