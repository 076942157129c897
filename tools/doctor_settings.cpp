// Do the process's own settings fit the host? Variables, interfaces, the port of the rendezvous, libraries.
#include <dlfcn.h>
#include <fmt/format.h>

#include "base/environment.hpp"
#include "base/socket.hpp"
#include "doctor.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace twohop::cli {

void Doctor::variables() {
  size_t set = 0, wrong = 0;
  for (const OptionValue& v : option_values(environment_)) {
    set += v.from_environment;
    if (v.problem.empty()) continue;
    ++wrong;
    add(Level::kError, v.name, "not accepted", v.problem, "correct or unset it: no communicator can be made with it");
  }
  std::vector<std::string> unknown;
  (void)parse_options(environment_, &unknown);
  for (const std::string& warning : unknown)
    add(Level::kWarning, "variables", "unknown", warning, "correct its name, or unset it");
  if (wrong + unknown.size() == 0) add(Level::kOk, "variables", fmt::format("{} TWOHOP_* set, all accepted", set));
}

void Doctor::interfaces() {
  if (!live_) return;
  const std::string wish(lookup(environment_, "TWOHOP_SOCKET_IFNAME").value_or(""));
  const auto chosen = choose_interface(wish);
  if (!chosen)
    return add(Level::kError, "network interface", "none fits", chosen.error().message,
               "set TWOHOP_SOCKET_IFNAME to the interface that reaches the other hosts");
  const std::string what = fmt::format("{}, {}", chosen->name, chosen->address.to_string());
  if (chosen->address.is_loopback() && wish.empty())
    return add(Level::kWarning, "network interface", what,
               "only loopback is up: no other host is reached", "bring an interface up, or set TWOHOP_SOCKET_IFNAME");
  add(Level::kOk, "network interface", what);
}

void Doctor::rendezvous_port() {
  const auto port = lookup(environment_, "TWOHOP_PORT"), master = lookup(environment_, "MASTER_PORT");
  if (!live_ || (!port && !master)) return;
  const auto number = parse_number(port ? *port : *master, false);
  if (!number || *number < 0 || *number + (port ? 0 : 1) > 65535)
    return add(Level::kError, "rendezvous port", std::string(port ? *port : *master), "is no port",
               "set TWOHOP_PORT, or MASTER_PORT, whose successor is used");
  const int wanted = static_cast<int>(*number) + (port ? 0 : 1);
  if (wanted == 0) return;
  auto address = resolve("0.0.0.0", wanted);
  const auto listener = address ? listen_on(*address) : Result<Fd>(address.error());
  if (listener) return add(Level::kOk, "rendezvous port", fmt::format("{} is free here", wanted));
  add(Level::kWarning, "rendezvous port", fmt::format("{}: {}", wanted, listener.error().message),
      "rank 0 cannot listen there, if it is to run on this host", "choose another by TWOHOP_PORT on all ranks");
}

void Doctor::libraries() {
  if (!live_) return;
  void* library = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library)
    add(Level::kOk, "libibverbs", "loads");
  else
    add(has_devices() ? Level::kError : Level::kInfo, "libibverbs", "does not load", "RDMA devices cannot be used",
        "install rdma-core (Debian: libibverbs1, ibverbs-providers)");
  // It stays loaded: providers leave threads and handlers behind.
  const auto options = parse_options(environment_, nullptr);
  const auto softnic = verbs::make_softnic_endpoint(0, options ? *options : Options(), random_secret());
  if (softnic)
    add(Level::kOk, "softnic", "the emulated device works (TWOHOP_NET=softnic, for tests)");
  else
    add(Level::kInfo, "softnic", "not usable", softnic.error().message, "only tests need it");
  if (lookup(environment_, "TWOHOP_NET") == "verbs" && !has_devices())
    add(Level::kError, "TWOHOP_NET", "verbs, without an RDMA device", "no communicator over several nodes can be made",
        "unset it, or TWOHOP_NET=tcp");
}

}  // namespace twohop::cli
