// Bus ids: every spelling found in files comes back in the kernel's, and nothing else is taken for one.
#include "topology/bus_id.hpp"

#include <gtest/gtest.h>

namespace twohop::topology {
namespace {

TEST(BusIds, AreReadInEverySpellingAndWrittenInTheKernels) {
  const std::pair<const char*, const char*> cases[] = {
      {"0000:3b:00.0", "0000:3b:00.0"}, {"3B:00.1", "0000:3b:00.1"},        {"00000000:3B:00.0", "0000:3b:00.0"},
      {"0103:00:00.0", "0103:00:00.0"}, {"10000:e1:00.0", "10000:e1:00.0"}, {"fffffff:ff:ff.0", "fffffff:ff:ff.0"},
      {"ffff:ff:01.0", "ffff:ff:01.0"},
  };
  for (const auto& [text, written] : cases) {
    const auto bus = parse_bus_id(text);
    ASSERT_TRUE(bus) << text;
    EXPECT_EQ(to_string(*bus), written);
    EXPECT_EQ(parse_bus_id(to_string(*bus)), bus);
  }
}

TEST(BusIds, AreNothingElse) {
  for (const char* text : {"", ".", ":.", "::.", "0000:3b:00", "3b.0", ":3b:00.0", "0000:3b:00.", "0000:3b:00.00",
                           "0x3b:00.0", "0000:3b:00.g", "123456789:3b:00.0", "0000:3b3:00.0", " 0000:3b:00.0",
                           "0000:3b:00.0 ", "-1:3b:00.0", "1:0000:3b:00.0"})
    EXPECT_FALSE(parse_bus_id(text)) << text;
}

}  // namespace
}  // namespace twohop::topology
