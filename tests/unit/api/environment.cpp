// The tests of the C API stay on the loopback interface, and a hang ends long before ctest's own deadline.
#include <gtest/gtest.h>

#include <cstdlib>

namespace {

class Loopback : public testing::Environment {
  void SetUp() override {
    setenv("TWOHOP_SOCKET_IFNAME", "lo", 1);
    setenv("TWOHOP_TIMEOUT_S", "60", 1);
    setenv("TWOHOP_INIT_TIMEOUT_S", "60", 1);
  }
};

const auto* const loopback = testing::AddGlobalTestEnvironment(new Loopback);

}  // namespace
