// Do immediates, attributes and the load plan say what both ends must agree on?
#include "transport/verbs/verbs_wire.hpp"

#include <endian.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <random>
#include <set>

#include "transport/verbs/verbs_attributes.hpp"
#include "transport/verbs/verbs_exchange.hpp"
#include "transport/verbs/verbs_load_plan.hpp"

namespace twohop::verbs {
namespace {

TEST(Immediate, UnpacksWhatWasPacked) {
  for (uint16_t link : {0, 1, 255, 65535})
    for (uint8_t slot : {0, 1, 63})
      for (uint8_t part : {0, 1, 127})
        for (int flags = 0; flags < 4; ++flags) {
          const Immediate i{.link = link, .slot = slot, .part = part, .last = (flags & 1) != 0, .tagged = flags > 1};
          EXPECT_EQ(unpack(pack(i)), i);
        }
  for (uint32_t count : {0u, 1u, 64u, kCountModulus - 1}) {
    const Immediate i{.credit = true, .link = 4711, .count = count};
    EXPECT_EQ(unpack(pack(i)), i);
  }
}

TEST(Immediate, OfACreditKeepsItsCountModulo) {
  EXPECT_EQ(unpack(pack({.credit = true, .count = kCountModulus + 5})).count, 5u);
}

TEST(QpAttributes, GoTogetherWithTheirMask) {
  ConnectionPlan c;
  c.local = {.qpn = 1, .psn = 11};
  c.remote = {.qpn = 2, .psn = 22, .lid = 33};
  c.remote.gid.raw[15] = 9;
  c.port = 2;
  c.gid_index = 3;
  c.global = true;
  c.mtu = IBV_MTU_2048;
  c.flow_label = 0x12345;
  c.tuning = {.timeout = 18, .retry_count = 5, .traffic_class = 106, .service_level = 3, .pkey_index = 4};

  const Transition init = to_init(c);
  EXPECT_EQ(init.mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  EXPECT_EQ(init.attributes.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(init.attributes.pkey_index, 4);
  EXPECT_EQ(init.attributes.port_num, 2);
  EXPECT_EQ(init.attributes.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_WRITE});

  const Transition rtr = to_ready_to_receive(c);
  EXPECT_EQ(rtr.mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  EXPECT_EQ(rtr.attributes.dest_qp_num, 2u);
  EXPECT_EQ(rtr.attributes.rq_psn, 22u);
  EXPECT_EQ(rtr.attributes.path_mtu, IBV_MTU_2048);
  const ibv_ah_attr& ah = rtr.attributes.ah_attr;
  EXPECT_EQ(ah.is_global, 1);
  EXPECT_EQ(ah.grh.sgid_index, 3);
  EXPECT_EQ(ah.grh.dgid.raw[15], 9);
  EXPECT_EQ(ah.grh.traffic_class, 106);
  EXPECT_EQ(ah.grh.flow_label, 0x12345u);
  EXPECT_EQ(ah.grh.hop_limit, 255);
  EXPECT_EQ(ah.sl, 3);
  EXPECT_EQ(ah.port_num, 2);

  const Transition rts = to_ready_to_send(c);
  EXPECT_EQ(rts.mask, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC);
  EXPECT_EQ(rts.attributes.sq_psn, 11u);
  EXPECT_EQ(rts.attributes.timeout, 18);
  EXPECT_EQ(rts.attributes.retry_cnt, 5);
  EXPECT_EQ(rts.attributes.rnr_retry, 7);
}

TEST(QpAttributes, AddressInfiniBandByLid) {
  ConnectionPlan c;
  c.remote.lid = 33;
  const Transition rtr = to_ready_to_receive(c);
  EXPECT_EQ(rtr.attributes.ah_attr.is_global, 0);
  EXPECT_EQ(rtr.attributes.ah_attr.dlid, 33);
}

TEST(Attributes, PatienceOutlastsWhatTheSpecificationAllowsADevice) {
  const RcTuning tuning{.timeout = 16, .retry_count = 7};
  EXPECT_GT(patience_seconds(tuning, false), 4 * give_up_seconds(16, 7));
  EXPECT_GT(patience_seconds(tuning, true), give_up_seconds(16, 7));
  EXPECT_LT(patience_seconds(tuning, true), patience_seconds(tuning, false)) << "a port that is down explains enough";
}

TEST(QpAttributes, StaggerTimeoutsOfNeighbours) {
  EXPECT_EQ(staggered_timeout(16, 0, 5), 16);
  EXPECT_EQ(staggered_timeout(16, 1, 4), 16);
  EXPECT_EQ(staggered_timeout(16, 1, 5), 17);
  EXPECT_EQ(staggered_timeout(30, 8, 8), 31);
  EXPECT_NEAR(give_up_seconds(20, 7), 34.4, 0.1);
  EXPECT_NEAR(give_up_seconds(16, 7), 2.1, 0.1);
}

TEST(QpAttributes, ConvertMtus) {
  for (int bytes : {256, 512, 1024, 2048, 4096}) EXPECT_EQ(mtu_bytes(mtu_from_bytes(bytes)), bytes);
}

/// Two connected sockets.
struct Sockets {
  Sockets() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    a = Fd(ends[0]);
    b = Fd(ends[1]);
  }
  Fd a, b;
};
Deadline soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(5);
}

Offer small_offer() {
  Offer offer;
  OfferedRail rail;
  rail.row.lid = 7;
  std::strcpy(rail.row.name, "mlx5_0:1");
  GidCandidate c;
  c.entry.index = 3;
  c.entry.gid.raw[15] = 9;
  c.entry.type = GidType::kRoceV2;
  c.entry.prefix_bits = 120;
  c.preference = 65;
  rail.gids.push_back(c);
  offer.rails.push_back(rail);
  offer.rails.push_back({});
  offer.links.push_back({1, 2, 8, 0, 0, 4096, 77, 88});
  offer.keys = {5, 6};
  return offer;
}

TEST(Offer, ArrivesAsItWasSentButForTheIndexOfItsGids) {
  Sockets s;
  ASSERT_TRUE(send_offer(s.a.get(), small_offer(), soon()));
  auto got = receive_offer(s.b.get(), soon());
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ(got->rails.size(), 2u);
  EXPECT_EQ(got->rails[0].row.lid, 7);
  EXPECT_STREQ(got->rails[0].row.name, "mlx5_0:1");
  ASSERT_EQ(got->rails[0].gids.size(), 1u);
  const GidCandidate& c = got->rails[0].gids[0];
  EXPECT_EQ(c.entry.gid.raw[15], 9);
  EXPECT_EQ(c.entry.type, GidType::kRoceV2);
  EXPECT_EQ(c.entry.prefix_bits, 120);
  EXPECT_EQ(c.preference, 65);
  EXPECT_EQ(c.entry.index, -1);
  EXPECT_TRUE(got->rails[1].gids.empty());
  EXPECT_EQ(got->links.at(0).tag_address, 88u);
  EXPECT_EQ(got->keys, (std::vector<uint32_t>{5, 6}));
}

TEST(Offer, WithMoreThanIsAcceptedIsRefusedBeforeItIsRead) {
  Sockets s;
  const OfferHeader header{kWireVersion, {}, htole32(1), 0, htole32(1)};
  RailRow row{};
  row.gids = htole32(0x7fffffff);
  ASSERT_TRUE(send_all(s.a.get(), std::as_bytes(std::span(&header, 1)), soon()));
  ASSERT_TRUE(send_all(s.a.get(), std::as_bytes(std::span(&row, 1)), soon()));
  auto got = receive_offer(s.b.get(), soon());
  ASSERT_FALSE(got);
  EXPECT_NE(got.error().message.find("has 2147483647 GIDs"), std::string::npos) << got.error().message;
}

TEST(LoadPlan, GivesEveryQueuePairAChannelAndEveryChannelAQueuePair) {
  for (size_t channels = 1; channels <= 16; ++channels)
    for (size_t paths = 1; paths <= 8; ++paths)
      for (size_t per_path : {1u, 3u}) {
        std::set<size_t> used;
        for (size_t c = 0; c < channels; ++c) {
          const auto qps = qps_of_channel(c, channels, paths, per_path);
          EXPECT_FALSE(qps.empty());
          used.insert(qps.begin(), qps.end());
        }
        EXPECT_EQ(used.size(), paths * per_path) << channels << " channels, " << paths << " paths";
      }
}

TEST(LoadPlan, CutsAMessageIntoPartsWithoutGapOrOverlap) {
  for (uint64_t bytes : {0ull, 1ull, 127ull, 4096ull, 4097ull, 65536ull, 1000003ull})
    for (size_t qps : {1u, 2u, 3u, 7u, 128u}) {
      const size_t parts = parts_of(bytes, qps);
      EXPECT_GE(parts, 1u);
      EXPECT_LE(parts, qps);
      EXPECT_EQ(part_begin(bytes, parts, 0), 0u);
      EXPECT_EQ(part_begin(bytes, parts, parts), bytes);
      for (size_t p = 0; p < parts; ++p) EXPECT_LE(part_begin(bytes, parts, p), part_begin(bytes, parts, p + 1));
    }
  EXPECT_EQ(parts_of(4096, 8), 1u);  // a short message stays whole
}

}  // namespace
}  // namespace twohop::verbs
