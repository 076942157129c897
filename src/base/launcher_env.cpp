// What do the variables of a launcher (RANK, WORLD_SIZE, MASTER_ADDR, ...) say? See options.hpp.
#include "base/environment.hpp"

namespace twohop {
namespace {

constexpr int kMaxWorldSize = 1 << 20;

Result<int> launcher_number(const Environment& environment, const char* name, int min, int max) {
  std::optional<std::string_view> text = lookup(environment, name);
  if (!text)
    return make_error(twohopInvalidArgument,
                      "{} is not set; start the program with a launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and "
                      "MASTER_PORT, such as scripts/launch",
                      name);
  std::optional<int64_t> number = parse_number(*text, false);
  if (!number || *number < min || *number > max)
    return make_error(twohopInvalidArgument, "{}={}: accepted are {} to {}; the launcher sets it", name, *text, min,
                      max);
  return static_cast<int>(*number);
}

}  // namespace

Result<LauncherEnv> launcher_env() {
  return parse_launcher_env(process_environment());
}

Result<LauncherEnv> parse_launcher_env(const Environment& environment) {
  Result<int> world_size = launcher_number(environment, "WORLD_SIZE", 1, kMaxWorldSize);
  if (!world_size) return world_size.error();
  Result<int> rank = launcher_number(environment, "RANK", 0, *world_size - 1);
  if (!rank) return rank.error();
  LauncherEnv launcher;
  launcher.rank = *rank;
  launcher.world_size = *world_size;
  if (lookup(environment, "LOCAL_RANK")) {
    Result<int> local_rank = launcher_number(environment, "LOCAL_RANK", 0, *world_size - 1);
    if (!local_rank) return local_rank.error();
    launcher.local_rank = *local_rank;
  }
  std::optional<std::string_view> address = lookup(environment, "MASTER_ADDR");
  if (!address)
    return make_error(twohopInvalidArgument, "MASTER_ADDR is not set; set it to the host of rank 0 on every rank");
  launcher.master_addr = *address;
  if (lookup(environment, "MASTER_PORT") || !lookup(environment, "TWOHOP_PORT")) {
    // Without TWOHOP_PORT rank 0 listens on the port after it.
    const bool own_port = lookup(environment, "TWOHOP_PORT").value_or("0") != "0";
    Result<int> port = launcher_number(environment, "MASTER_PORT", 1, own_port ? 65535 : 65534);
    if (!port && !own_port) port.error().message += ", and rank 0 listens on MASTER_PORT + 1; or set TWOHOP_PORT";
    if (!port) return port.error();
    launcher.master_port = *port;
  }
  return launcher;
}

}  // namespace twohop
