// See registrations.hpp.
#include "collectives/exec/registrations.hpp"

#include <algorithm>
#include <iterator>

namespace twohop {
namespace {

uintptr_t address_of(const void* p) {
  return reinterpret_cast<uintptr_t>(p);
}

}  // namespace

Error calls_are_pending(const char* what) {
  return make_error(twohopInvalidUsage,
                    "memory is {} while calls of this communicator are pending: synchronize its streams first", what);
}

Result<uint64_t> Registrations::add(Range range) {
  const uintptr_t begin = address_of(range.data());
  if (begin + range.size() < begin)
    return make_error(twohopInvalidArgument, "buffer={:#x} with bytes={} runs past the end of memory", begin,
                      range.size());
  auto next = by_address_.lower_bound(begin + range.size());  // the first that begins behind it
  if (next != by_address_.begin()) {
    const auto& [at, entry] = *std::prev(next);
    if (at + entry.bytes > begin)
      return make_error(
          twohopInvalidUsage,
          "buffer={:#x} ({} bytes) overlaps {:#x} ({} bytes), which is registered: deregister that first, "
          "or register the whole once",
          begin, range.size(), at, entry.bytes);
  }
  by_address_[begin] = {range.size(), ++last_number_};
  return last_number_;
}

Result<Registrations::Range> Registrations::find(uint64_t number) const {
  const auto it = std::find_if(by_address_.begin(), by_address_.end(),
                               [&](const auto& entry) { return entry.second.number == number; });
  if (it == by_address_.end())
    return make_error(twohopInvalidArgument,
                      "handle={:#x} is no registration of this communicator, or was deregistered already", number);
  return Range(reinterpret_cast<std::byte*>(it->first), it->second.bytes);
}

void Registrations::remove(uint64_t number) {
  std::erase_if(by_address_, [&](const auto& entry) { return entry.second.number == number; });
}

uint64_t Registrations::number_of(const void* p) const {
  return std::prev(by_address_.upper_bound(address_of(p)))->second.number;
}

bool Registrations::covers(const void* p, uint64_t bytes) const {
  const uintptr_t at = address_of(p);
  auto it = by_address_.upper_bound(at);
  if (it == by_address_.begin()) return false;
  --it;
  return at - it->first < it->second.bytes && bytes <= it->second.bytes - (at - it->first);
}

}  // namespace twohop
