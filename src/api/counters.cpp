// See counters.hpp.
#include "api/counters.hpp"

#include <cstddef>
#include <cstring>

#include "api/sized_struct.hpp"

namespace twohop {
namespace {

constexpr size_t kFirstSize = 64;  // of the first version: up to and including yields
static_assert(offsetof(twohopCounters_t, init_ns) == kFirstSize, "fields are only added at the end");
static_assert(EndpointCounters::kMaxRails == TWOHOP_MAX_RAILS);

void fill_network(const EndpointCounters& net, twohopCounters_t& c) {
  c.net_bytes_sent = net.bytes_sent;
  c.net_bytes_received = net.bytes_received;
  c.puts = net.puts;
  c.flushes = net.flushes;
  c.credits = net.credits;
  c.work_requests = net.work_requests;
  c.doorbells = net.doorbells;
  c.signalled_completions = net.signalled_completions;
  c.held_ns = net.held_ns;
  c.post_ns = net.post_ns;
  c.completion_ns = net.completion_ns;
  c.registrations = net.registrations;
  c.registered_bytes = net.registered_bytes;
  c.registration_ns = net.registration_ns;
  c.nrails = net.rails;
  c.rail_failures = net.rail_failures;
  c.rail_returns = net.rail_returns;
  c.reissued_puts = net.reissued_puts;
  std::copy(net.rail_bytes.begin(), net.rail_bytes.end(), c.rail_bytes);
}

void fill_rail_status(const std::vector<RailStatus>& rails, twohopCounters_t& c) {
  for (size_t i = 0; i < rails.size() && i < TWOHOP_MAX_RAILS; ++i) {
    c.nretry_rails += rails[i].counts_retries;
    c.retries += rails[i].retries;
    c.rail_retries[i] = rails[i].retries;
    c.rail_port[i] = rails[i].port_id;
  }
}

}  // namespace

Result<> fill_counters(const CommCounters& from, const Communicator& comm, twohopCounters_t* counters) {
  const size_t size = counters->size;
  if (auto ok = check_struct_size("counters", size, kFirstSize, "set it to sizeof(twohopCounters_t)"); !ok) return ok;
  twohopCounters_t ours{};
  ours.size = size;
  ours.calls = from.calls;
  ours.sleeps = from.sleeps;
  ours.yields = from.yields;
  ours.init_ns = from.init_ns;
  ours.first_call_ns = from.first_call_ns;
  ours.call_ns = from.call_ns;
  fill_network(from.net, ours);
  if (size > offsetof(twohopCounters_t, nretry_rails)) fill_rail_status(comm.rail_status(), ours);
  std::memset(static_cast<void*>(counters), 0, size);  // fields that only a newer library counts
  std::memcpy(static_cast<void*>(counters), &ours, std::min(size, sizeof ours));
  return {};
}

}  // namespace twohop
