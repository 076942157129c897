// Two ranks on the emulated device, with settings of their own: what connecting says on each.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "../cluster.hpp"

namespace twohop::test {

/// Sets SOFTNIC for the test.
class WithSettings : public ::testing::Test {
 protected:
  static void use(const std::string& words) { use_softnic(words); }
  void TearDown() override { use_softnic(); }
};

/// TWOHOP_IB_HCA=hcas
inline Net rails(const std::string& hcas) {
  return {"softnic", [hcas](verbs::VerbsConfig& c) { c.rails.hcas = *verbs::HcaList::parse(hcas); }};
}

inline const std::vector<LinkPlan> kOneLinkEachWay = {{{0, 0, 0, 1}, 1 << 16}, {{0, 0, 1, 0}, 1 << 16}};

inline std::array<Result<>, 2> connect_two(const Net& a, const Net& b) {
  const Secret secret = random_secret();
  Rank ranks[2];
  std::vector<Bytes> addresses;
  for (int i = 0; i < 2; ++i) {
    auto endpoint = make_test_endpoint(i == 0 ? a : b, i, secret);
    if (!endpoint) return {endpoint.error(), endpoint.error()};
    ranks[i].rank = i;
    ranks[i].endpoint = std::move(*endpoint);
    addresses.push_back(ranks[i].endpoint->address());
  }
  std::array<Result<>, 2> results;
  // A rank that fails closes its connections, as a communicator does: the other need not wait for its deadline.
  const auto connect = [&](int i) {
    results[i] = connect_rank(ranks[i], kOneLinkEachWay, addresses, in_seconds(10));
    if (!results[i]) ranks[i].endpoint.reset();
  };
  std::thread other(connect, 1);
  connect(0);
  other.join();
  return results;
}

}  // namespace twohop::test
