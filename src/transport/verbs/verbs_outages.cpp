// See verbs_outages.hpp.
#include "transport/verbs/verbs_outages.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace twohop::verbs {
namespace {

struct Outages {
  std::mutex mutex;
  std::map<std::string, int> endpoints;  // that have given the rail up
};

/// Never destroyed: communicators may outlive the statics.
Outages& outages() {
  static auto* all = new Outages;
  return *all;
}

}  // namespace

Outage::Outage(std::string rail) : rail_(std::move(rail)) {
  Outages& all = outages();
  const std::lock_guard lock(all.mutex);
  first_ = ++all.endpoints[rail_] == 1;
}

Outage& Outage::operator=(Outage&& o) noexcept {
  std::swap(rail_, o.rail_);
  std::swap(first_, o.first_);
  return *this;
}

bool Outage::end() {
  if (rail_.empty()) return false;
  Outages& all = outages();
  const std::lock_guard lock(all.mutex);
  const auto at = all.endpoints.find(std::exchange(rail_, {}));
  if (--at->second > 0) return false;
  all.endpoints.erase(at);
  return true;
}

}  // namespace twohop::verbs
