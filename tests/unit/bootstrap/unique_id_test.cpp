// What the 128 bytes hold, and that no others are taken for them.
#include "bootstrap/unique_id.hpp"

#include <cstring>
#include <random>

#include "unit/bootstrap/ranks.hpp"

namespace twohop {
namespace {

using ::testing::HasSubstr;

TEST(UniqueId, KeepsAddressAndSecret) {
  for (const char* host : {"10.1.2.3", "::1", "2001:db8::7"}) {
    for (bool shared : {false, true}) {
      const UniqueIdContent content{*resolve(host, 65535), random_secret(), shared};
      auto back = decode(encode(content));
      ASSERT_TRUE(back) << back.error().message;
      EXPECT_EQ(back->root.to_string(), content.root.to_string());
      EXPECT_EQ(back->secret, content.secret);
      EXPECT_EQ(back->shared_port, shared);
    }
  }
}

TEST(UniqueId, RejectsBytesThatAreNotOurs) {
  EXPECT_EQ(decode(twohopUniqueId{}).error().code, twohopInvalidArgument);
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  for (int i = 0; i < 1000; i++) {
    twohopUniqueId id;
    for (char& c : id.internal) c = static_cast<char>(random());
    EXPECT_FALSE(decode(id)) << "seed " << seed;
  }
}

TEST(UniqueId, NoticesEveryAlteredByte) {
  const twohopUniqueId good = encode(UniqueIdContent{*resolve("10.1.2.3", 99), random_secret()});
  for (size_t i = 0; i < sizeof good.internal; i++) {
    twohopUniqueId bad = good;
    bad.internal[i] = static_cast<char>(bad.internal[i] ^ 4);
    EXPECT_FALSE(decode(bad)) << "byte " << i;
  }
}

TEST(UniqueId, NamesAnotherVersion) {
  twohopUniqueId id = encode(UniqueIdContent{*resolve("10.1.2.3", 99), random_secret()});
  id.internal[7] = 9;
  EXPECT_THAT(decode(id).error().message, HasSubstr("version 9"));
}

TEST(MakeUniqueId, GivesFreshSecretsAndAListeningAddress) {
  auto a = make_unique_id(loopback_options()), b = make_unique_id(loopback_options());
  ASSERT_TRUE(a && b);
  EXPECT_NE(decode(*a)->secret, decode(*b)->secret);
  EXPECT_TRUE(connect_to(decode(*a)->root, in(std::chrono::seconds(2))));
}

TEST(MakeUniqueId, FailsWhenNoInterfaceIsSelected) {
  Options o = loopback_options();
  o.socket_ifname = "=nosuchif0";
  EXPECT_THAT(make_unique_id(o).error().message, HasSubstr("nosuchif0"));
}

}  // namespace
}  // namespace twohop
