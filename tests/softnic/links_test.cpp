// InfiniBand and RoCE, subnets, addresses of every family: who reaches whom, and calls that are refused on request.
#include <cerrno>

#include "fabric.hpp"

namespace softnic_test {
namespace {

ibv_port_attr port_of(ibv_context* context) {
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
  return port;
}

/// Status of a write from a to b.
ibv_wc_status written(const Pair& pair) {
  EXPECT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 100, pair.b.address()), 0);
  return pair.a.next().status;
}

/// Connects by LID.
struct LidPair {
  explicit LidPair(const Shape& left = {}, const Shape& right = {}) : a(left), b(right) {
    const uint16_t to_b = port_of(b.context).lid, to_a = port_of(a.context).lid;
    a.connect(b.address(), [&](ibv_qp_attr& at) { at.ah_attr.is_global = 0, at.ah_attr.dlid = to_b; });
    b.connect(a.address(), [&](ibv_qp_attr& at) { at.ah_attr.is_global = 0, at.ah_attr.dlid = to_a; });
  }
  End a, b;
};

TEST(InfiniBand, HasLidsAndOneGid) {
  use_settings("link=ib,host=2");
  End end;
  const ibv_port_attr port = port_of(end.context);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_EQ(port.lid, 17);
  ibv_gid_entry entry{};
  ASSERT_EQ(ibv_query_gid_ex(end.context, 1, 0, &entry, 0), 0);
  EXPECT_EQ(entry.gid_type, uint32_t{IBV_GID_TYPE_IB});
  EXPECT_EQ(ibv_query_gid_ex(end.context, 1, 1, &entry, 0), ENODATA);
}

TEST(InfiniBand, ConnectsByLid) {
  use_settings("link=ib");
  LidPair pair({}, {.device = 1});
  for (size_t i = 0; i < 100; i++) pair.a.memory[i] = static_cast<uint8_t>(i);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 100, pair.b.address()), 0);
  EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(pair.a.memory.data(), pair.b.memory.data(), 100), 0);
}

TEST(InfiniBand, NeedsALidOrAGid) {
  use_settings("link=ib");
  End end;
  const ibv_qp_attr a = end.attributes(end.address());
  ASSERT_EQ(end.to(IBV_QPS_INIT, a), 0);
  ibv_qp_attr lid_zero = a;
  lid_zero.ah_attr.is_global = 0;
  EXPECT_EQ(end.to(IBV_QPS_RTR, lid_zero), EINVAL);
}

TEST(Roce, NeedsAGid) {
  use_settings("");
  End end;
  ibv_qp_attr a = end.attributes(end.address());
  ASSERT_EQ(end.to(IBV_QPS_INIT, a), 0);
  a.ah_attr.is_global = 0;
  a.ah_attr.dlid = 5;
  EXPECT_EQ(end.to(IBV_QPS_RTR, a), EINVAL);
}

TEST(Links, OfTwoKindsDoNotReachEachOther) {
  use_settings("link=ib+eth");
  LidPair pair({}, {.device = 0});
  End other({.device = 1});
  End lone;
  lone.connect(other.address(), [&](ibv_qp_attr& at) { at.ah_attr.is_global = 0, at.ah_attr.dlid = 2; });
  ASSERT_EQ(lone.post(IBV_WR_RDMA_WRITE, 1, other.address()), 0);
  EXPECT_EQ(lone.next().status, IBV_WC_RETRY_EXC_ERR);
}

TEST(Subnets, ReachEachOtherUnlessTheyAreNotRouted) {
  const Shape left{.device = 0}, right{.device = 1};
  use_settings("");
  EXPECT_EQ(written(Pair(left, right)), IBV_WC_SUCCESS);
  use_settings("route=0");
  EXPECT_EQ(written(Pair(left, right)), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(written(Pair(left, left)), IBV_WC_SUCCESS);
}

TEST(Subnets, AreWhereTheyWereAskedToBe) {
  use_settings("nets=3+0");
  End end;
  ibv_gid gid{};
  ASSERT_EQ(ibv_query_gid(end.context, 1, 3, &gid), 0);
  EXPECT_EQ(gid.raw[13], 67);
}

TEST(Gids, OfIpv6ReachEachOtherAndNotIpv4) {
  use_settings("gids=none+ip62+ip2");
  const Shape six{.gid_index = 1}, four{.gid_index = 2};
  EXPECT_EQ(written(Pair(six, six)), IBV_WC_SUCCESS);
  EXPECT_EQ(written(Pair(six, four)), IBV_WC_RETRY_EXC_ERR);
}

TEST(Gids, MayLeaveSlotsEmpty) {
  use_settings("gids=none+ip2");
  End end({.gid_index = 1});
  ibv_gid_entry entry{};
  EXPECT_EQ(ibv_query_gid_ex(end.context, 1, 0, &entry, 0), ENODATA);
  EXPECT_EQ(ibv_query_gid_ex(end.context, 1, 1, &entry, 0), 0);
}

TEST(Refusals, HappenOnTheCallAskedForAndNotAgain) {
  use_settings("refuse=create_cq:2:ENOMEM,refuse=to_rtr:1:ENODEV,refuse=create_comp_channel:2:EMFILE");
  End end;
  EXPECT_EQ(ibv_create_cq(end.context, 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(ibv_create_comp_channel(end.context), nullptr);
  EXPECT_EQ(errno, EMFILE);
  const ibv_qp_attr a = end.attributes(end.address());
  ASSERT_EQ(end.to(IBV_QPS_INIT, a), 0);
  EXPECT_EQ(end.to(IBV_QPS_RTR, a), ENODEV);
  EXPECT_EQ(end.to(IBV_QPS_RTR, a), 0);
}

TEST(Refusals, OfADeviceLeaveTheOthers) {
  use_settings("refuse=open_device:1:EACCES");
  ibv_device** list = ibv_get_device_list(nullptr);
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(ibv_open_device(list[0]), nullptr);
  EXPECT_EQ(errno, EACCES);
  ibv_context* other = ibv_open_device(list[1]);
  EXPECT_NE(other, nullptr);
  ibv_free_device_list(list);
  if (other) ibv_close_device(other);
}

}  // namespace
}  // namespace softnic_test
