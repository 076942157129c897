// The checks of a twohopConfig_t: first that it is one, then each field.
#include "api/config.hpp"

#include <cmath>
#include <cstring>

#include "api/sized_struct.hpp"
#include "collectives/plan/selection.hpp"

namespace twohop {
namespace {

constexpr size_t kFirstSize = 48;  // of version 0.1: up to and including ranks_per_node
static_assert(sizeof(twohopConfig_t) >= kFirstSize && sizeof(void*) == 8);
constexpr int kMaxChannels = 16, kMaxRanksPerNode = 1024;
constexpr double kMaxTimeout_s = 7 * 86400;
constexpr size_t kMaxName = 255;

/// The caller's struct as one of ours; fields that an older caller does not have are at their initial values.
Result<twohopConfig_t> read_config(const twohopConfig_t& given) {
  uint32_t version;
  if (auto ok = check_struct_size("config", given.size, kFirstSize, "set it to TWOHOP_CONFIG_INITIALIZER"); !ok)
    return ok.error();
  std::memcpy(&version, reinterpret_cast<const char*>(&given) + offsetof(twohopConfig_t, version), sizeof version);
  if (version == 0 || version >= (TWOHOP_MAJOR + 1) * 10000 || version < TWOHOP_MAJOR * 10000)
    return make_error(
        twohopInvalidArgument,
        "config.version={}: this is twohop {}.{}.{}; set config to TWOHOP_CONFIG_INITIALIZER of its header", version,
        TWOHOP_MAJOR, TWOHOP_MINOR, TWOHOP_PATCH);
  if (!rest_is_zero(&given, given.size, sizeof(twohopConfig_t)))
    return make_error(
        twohopInvalidArgument,
        "config.size={}: it sets options that this library (config of {} bytes) does not have; leave them "
        "at their initial values or load a newer library",
        given.size, sizeof(twohopConfig_t));
  twohopConfig_t config = TWOHOP_CONFIG_INITIALIZER;
  std::memcpy(&config, &given, std::min(given.size, sizeof config));
  return config;
}

Result<> check_fields(const twohopConfig_t& c) {
  if (c.nchannels < 0 || c.nchannels > kMaxChannels)
    return make_error(twohopInvalidArgument, "config.nchannels={}: accepted are 1 to {}, 0 for the default",
                      c.nchannels, kMaxChannels);
  if (!std::isfinite(c.timeout_s) || c.timeout_s < 0 || c.timeout_s > kMaxTimeout_s)
    return make_error(twohopInvalidArgument, "config.timeout_s={}: accepted are up to {} seconds, 0 for the default",
                      c.timeout_s, kMaxTimeout_s);
  if (c.ranks_per_node < 0 || c.ranks_per_node > kMaxRanksPerNode)
    return make_error(twohopInvalidArgument, "config.ranks_per_node={}: accepted are 1 to {}, 0 for the default",
                      c.ranks_per_node, kMaxRanksPerNode);
  if (c.algo && !Selection::parse(c.algo))
    return make_error(twohopInvalidArgument, "config.algo=\"{:.64}\": accepted are {}; NULL for the default", c.algo,
                      accepted_selections());
  if (c.comm_name && strnlen(c.comm_name, kMaxName + 1) > kMaxName)
    return make_error(twohopInvalidArgument, "config.comm_name has more than {} characters: give a shorter one",
                      kMaxName);
  return {};
}

}  // namespace

Result<CommConfig> resolve_config(const twohopConfig_t* given, const Options& options) {
  twohopConfig_t config = TWOHOP_CONFIG_INITIALIZER;
  if (given) {
    auto read = read_config(*given);
    if (!read) return read.error();
    config = *read;
  }
  if (auto ok = check_fields(config); !ok) return ok.error();

  CommConfig resolved;
  resolved.algo = config.algo ? config.algo : options.algo;
  resolved.name = config.comm_name ? config.comm_name : "";
  resolved.nchannels = config.nchannels ? config.nchannels : static_cast<int>(options.nchannels);
  resolved.ranks_per_node = config.ranks_per_node ? config.ranks_per_node : static_cast<int>(options.ranks_per_node);
  resolved.timeout_s = config.timeout_s > 0 ? config.timeout_s : static_cast<double>(options.timeout_s);
  return resolved;
}

}  // namespace twohop
