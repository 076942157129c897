// What a build without infiniband/verbs.h does: TCP where nothing else is asked for, and a plain message where it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/transport.hpp"

namespace twohop {
namespace {

using ::testing::HasSubstr;

Result<std::unique_ptr<Endpoint>> endpoint_for(const std::string& net) {
  Options options;
  options.net = net;
  options.socket_ifname = "lo";
  return make_endpoint(0, options, random_secret(), {});
}

TEST(NoVerbs, DataGoesOverTcp) {
  for (const char* net : {"auto", "tcp"}) {
    auto endpoint = endpoint_for(net);
    ASSERT_TRUE(endpoint) << endpoint.error().message;
    EXPECT_STREQ((*endpoint)->name(), "tcp");
  }
}

TEST(NoVerbs, AskingForItSaysWhatIsMissing) {
  for (const char* net : {"verbs", "softnic"}) {
    auto endpoint = endpoint_for(net);
    ASSERT_FALSE(endpoint) << net;
    EXPECT_THAT(endpoint.error().message, HasSubstr("built without infiniband/verbs.h")) << net;
    EXPECT_THAT(endpoint.error().message, HasSubstr("libibverbs-dev")) << net;
  }
}

}  // namespace
}  // namespace twohop
