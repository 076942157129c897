// What do the rails' devices say of them? Asked when a user asks for counters, never on the fast path.
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {
namespace {

/// A port is its device's GUID and its number. Neither a name nor a GID would do: names repeat on every host, and ranks
/// may use different GIDs of one port.
uint64_t port_id(const Rail& rail) {
  ibv_device_attr device{};
  if (rail.context->api().query_device(rail.context->get(), &device) != 0) return 0;
  return be64toh(device.node_guid) ^ uint64_t { rail.port } << 56;
}

}  // namespace

std::vector<int> VerbsEndpoint::own_rails() const {
  std::vector<int> numbers;
  for (size_t i = 0; i < rails_.size(); ++i)
    if (rails_[i].own) numbers.push_back(rails_[i].number >= 0 ? rails_[i].number : static_cast<int>(i));
  return numbers;
}

std::vector<RailStatus> VerbsEndpoint::rail_status() const {
  std::vector<RailStatus> all;
  if (peers_.empty()) return all;
  for (const Rail& rail : rails_) {
    RailStatus status;
    status.port_id = port_id(rail);
    if (const auto now = read_retries(rail.context->get()->device->ibdev_path, rail.port)) {
      status.counts_retries = true;
      const uint64_t before = retries_in(rail.counters_at_start).value_or(0);
      status.retries = *now > before ? *now - before : 0;  // less: somebody has reset the counters
    }
    all.push_back(status);
  }
  return all;
}

}  // namespace twohop::verbs
