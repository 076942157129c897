// See port_counters.hpp.
#include "port_counters.hpp"

#include <endian.h>

#include <algorithm>

namespace twohop::verbs_perf {
namespace {

std::string guid_of(const verbs::Rail& rail) {
  ibv_device_attr device{};
  if (rail.context->api().query_device(rail.context->get(), &device) != 0) return "";
  return fmt::format("{:016x}:{}", be64toh(device.node_guid), rail.port);
}

}  // namespace

CounterShot::CounterShot(const RowEnd& end) {
  for (const RowPort& port : end.ports()) {
    const char* path = port.rail->context->get()->device->ibdev_path;
    counters.push_back(verbs::read_hw_counters(path, port.rail->port, "counters"));
    hw_counters.push_back(verbs::read_hw_counters(path, port.rail->port, "hw_counters"));
  }
}

void add_counters(const RowEnd& end, const CounterShot& before, const CounterShot& after, EndResult& result) {
  result.retries = 0;
  for (size_t i = 0; i < end.ports().size(); ++i) {
    const verbs::Rail& rail = *end.ports()[i].rail;
    Moved moved = moved_counters(before.counters[i], after.counters[i], "counters");
    moved.merge(moved_counters(before.hw_counters[i], after.hw_counters[i], "hw_counters"));
    result.counters[rail.name] = std::move(moved);
    result.guids[rail.name] = guid_of(rail);
    const auto now = verbs::retries_in(after.hw_counters[i]);
    if (!now) result.retries.reset();
    if (now && result.retries) {
      const uint64_t old = verbs::retries_in(before.hw_counters[i]).value_or(0);
      *result.retries += std::max(*now, old) - old;
    }
  }
}

std::string trouble(const RowEnd& end, const CounterShot& before, const CounterShot& after) {
  std::string text;
  for (size_t i = 0; i < end.ports().size(); ++i)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", end.ports()[i].rail->name,
                        verbs::moved(before.hw_counters[i], after.hw_counters[i]));
  return text;
}

}  // namespace twohop::verbs_perf
