// See hello.hpp.
#include "hello.hpp"

#include <unistd.h>

#include <array>
#include <fstream>

namespace twohop::verbs_perf {
namespace {

constexpr int kProtocol = 1;

/// Two ends with the same id run on one kernel.
std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace

nlohmann::json hello_message(const Ports& ports) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return {{"verbs_perf", kProtocol}, {"host", host.data()}, {"boot", boot_id()}, {"emulated", ports.emulated()}};
}

Result<> check_hello(const nlohmann::json& theirs) {
  const auto protocol = theirs.find("verbs_perf");
  if (protocol != theirs.end() && *protocol == kProtocol && theirs.value("host", nlohmann::json()).is_string())
    return {};
  return make_error(twohopInvalidUsage,
                    "the other end speaks verbs_perf protocol {}, this one {}: run the same version",
                    protocol == theirs.end() ? "none" : protocol->dump(), kProtocol);
}

}  // namespace twohop::verbs_perf
