// What does the device say of itself, and do its queue pairs insist on the attributes of each transition?
#include <fcntl.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "fabric.hpp"

namespace softnic_test {
namespace {

TEST(Device, HasTheNumberOfDevicesAskedFor) {
  use_settings("devices=3");
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  EXPECT_EQ(count, 3);
  EXPECT_STREQ(ibv_get_device_name(list[2]), "softnic2");
  EXPECT_EQ(list[3], nullptr);
  ibv_free_device_list(list);
}

TEST(Device, GidTableHoldsBothVersionsAndFamilies) {
  use_settings("host=2");
  ibv_context* context = open_device(1);
  ibv_gid_entry entry{};
  ASSERT_EQ(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
  EXPECT_EQ(entry.gid_type, uint32_t{IBV_GID_TYPE_ROCE_V1});
  EXPECT_EQ(entry.gid.raw[0], 0xfe);
  ASSERT_EQ(ibv_query_gid_ex(context, 1, 3, &entry, 0), 0);
  EXPECT_EQ(entry.gid_type, uint32_t{IBV_GID_TYPE_ROCE_V2});
  const uint8_t ip[4] = {10, 65, 0, 3};
  EXPECT_EQ(std::memcmp(entry.gid.raw + 12, ip, 4), 0);
  EXPECT_EQ(ibv_query_gid_ex(context, 1, 4, &entry, 0), ENODATA);
  EXPECT_EQ(ibv_query_gid_ex(context, 1, 8, &entry, 0), EINVAL);
  ibv_gid_entry all[8];
  EXPECT_EQ(ibv_query_gid_table(context, all, 8, 0), 4);
  ibv_close_device(context);
}

TEST(Device, PortTellsItsMtuAndLinkLayer) {
  use_settings("mtu=1024");
  ibv_context* context = open_device();
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.active_mtu, IBV_MTU_1024);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(ibv_query_port(context, 2, &port), EINVAL);
  ibv_close_device(context);
}

TEST(Device, LeavesNothingBehind) {
  use_settings();
  std::string folder;
  {
    End end;
    folder = end.context->device->ibdev_path;
    EXPECT_TRUE(std::filesystem::exists(folder + "/ports/1/hw_counters/sent_pkts"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_FALSE(std::filesystem::exists(folder + "/../../state"));
}

TEST(Memory, RefusesWhatAnAdapterRefuses) {
  use_settings("memlock=128k");
  End end;
  std::vector<char> more(1 << 17);
  auto error = [&](void* address, size_t bytes, unsigned access) {
    return ibv_reg_mr(end.pd, address, bytes, access) ? 0 : errno;
  };
  EXPECT_EQ(error(more.data(), more.size(), IBV_ACCESS_LOCAL_WRITE), ENOMEM) << "beyond memlock";
  EXPECT_EQ(error(more.data(), 64, IBV_ACCESS_REMOTE_WRITE), EINVAL) << "remote write needs local write";
  EXPECT_EQ(error(reinterpret_cast<void*>(4096), 64, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  EXPECT_EQ(ibv_dealloc_pd(end.pd), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(end.cq), EBUSY);
}

struct Step {
  ibv_qp_state state;
  std::vector<int> required;
};

TEST(QueuePair, InsistsOnEveryAttributeOfATransition) {
  use_settings();
  const Step steps[] = {
      {IBV_QPS_INIT, {IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_ACCESS_FLAGS}},
      {IBV_QPS_RTR,
       {IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN, IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER}},
      {IBV_QPS_RTS, {IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_SQ_PSN, IBV_QP_MAX_QP_RD_ATOMIC}}};
  End end;
  ibv_qp_attr a = end.attributes(end.address());
  for (const Step& step : steps) {
    for (int attribute : step.required)
      EXPECT_EQ(end.to(step.state, a, attribute), EINVAL) << step.state << " " << attribute;
    EXPECT_EQ(end.to(step.state, a), 0);
  }
}

TEST(QueuePair, RefusesTransitionsThatSkipAState) {
  use_settings();
  End end;
  ibv_qp_attr a = end.attributes(end.address());
  EXPECT_EQ(end.to(IBV_QPS_RTR, a), EINVAL);
  EXPECT_EQ(end.to(IBV_QPS_RTS, a), EINVAL);
  EXPECT_EQ(end.to(IBV_QPS_SQD, a), EINVAL);
  EXPECT_EQ(end.to(IBV_QPS_INIT, a), 0);
  EXPECT_EQ(end.to(IBV_QPS_RTS, a), EINVAL);
  EXPECT_EQ(end.to(IBV_QPS_ERR, a), 0);
  EXPECT_EQ(end.to(IBV_QPS_INIT, a), EINVAL);
  EXPECT_EQ(end.to(IBV_QPS_RESET, a), 0);
  EXPECT_EQ(end.to(IBV_QPS_INIT, a), 0);
}

TEST(QueuePair, RefusesValuesThatCannotBe) {
  use_settings("mtu=1024");
  End end;
  const ibv_qp_attr good = end.attributes(end.address());
  auto refused = [&](ibv_qp_state state, const std::function<void(ibv_qp_attr&)>& change) {
    ibv_qp_attr a = good;
    change(a);
    return end.to(state, a) == EINVAL;
  };
  EXPECT_TRUE(refused(IBV_QPS_INIT, [](ibv_qp_attr& a) { a.port_num = 2; }));
  EXPECT_TRUE(refused(IBV_QPS_INIT, [](ibv_qp_attr& a) { a.pkey_index = 1; }));
  ASSERT_EQ(end.to(IBV_QPS_INIT, good), 0);
  EXPECT_TRUE(refused(IBV_QPS_RTR, [](ibv_qp_attr& a) { a.path_mtu = IBV_MTU_2048; })) << "above the active MTU";
  EXPECT_TRUE(refused(IBV_QPS_RTR, [](ibv_qp_attr& a) { a.ah_attr.is_global = 0; })) << "RoCE needs a GRH";
  EXPECT_TRUE(refused(IBV_QPS_RTR, [](ibv_qp_attr& a) { a.ah_attr.grh.sgid_index = 5; })) << "an empty entry";
  ASSERT_EQ(end.to(IBV_QPS_RTR, good), 0);
  EXPECT_TRUE(refused(IBV_QPS_RTS, [](ibv_qp_attr& a) { a.retry_cnt = 8; }));
  EXPECT_EQ(end.to(IBV_QPS_RTS, good), 0);
}

TEST(QueuePair, TakesRequestsOnlyInStatesThatMaySend) {
  use_settings();
  End end;
  Address self = end.address();
  ibv_qp_attr a = end.attributes(self);
  EXPECT_EQ(end.receive(0, 8), EINVAL) << "RESET";
  end.to(IBV_QPS_INIT, a);
  EXPECT_EQ(end.receive(0, 8), 0);
  EXPECT_EQ(end.post(IBV_WR_RDMA_WRITE, 8, self), EINVAL) << "INIT";
  end.to(IBV_QPS_RTR, a);
  EXPECT_EQ(end.post(IBV_WR_RDMA_WRITE, 8, self), EINVAL) << "RTR";
  end.to(IBV_QPS_RTS, a);
  EXPECT_EQ(end.post(IBV_WR_RDMA_WRITE, 8, self), 0);
  EXPECT_EQ(end.next().status, IBV_WC_SUCCESS) << "a queue pair may be connected to itself";
}

TEST(QueuePair, DrainsAndGoesOn) {
  use_settings("latency=1ms");
  Pair pair;
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 64, pair.b.address(), 1), 0);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_SQD;
  a.en_sqd_async_notify = 1;
  ASSERT_EQ(ibv_modify_qp(pair.a.qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 64, pair.b.address(), 2), 0);
  EXPECT_EQ(pair.a.next().wr_id, 1u);
  EXPECT_TRUE(pair.a.hears(IBV_EVENT_SQ_DRAINED));
  EXPECT_TRUE(pair.a.nothing());
  ASSERT_EQ(pair.a.to(IBV_QPS_RTS, {}, ~IBV_QP_STATE), 0);
  EXPECT_EQ(pair.a.next().wr_id, 2u);
}

TEST(QueuePair, NumbersDoNotComeBackSoon) {
  use_settings();
  End keeper;  // the domain begins anew when nobody is in it
  std::set<uint32_t> seen;
  for (int i = 0; i < 50; i++) {
    End end;
    EXPECT_TRUE(seen.insert(end.qp->qp_num).second);
  }
}

TEST(Counters, FilesSayWhatTheCountersSay) {
  use_settings();
  Pair pair;
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 10000, pair.b.address()), 0);
  ASSERT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.counter("sent_pkts"), 10) << "10000 bytes in packets of 1024";
  EXPECT_EQ(pair.a.counter("port_xmit_data"), 2500);
  EXPECT_EQ(pair.a.counter("rx_write_requests"), 1);
  EXPECT_EQ(pair.a.counter("no_such"), -1);
  std::ifstream file(std::string(pair.a.context->device->ibdev_path) + "/ports/1/hw_counters/sent_pkts");
  int64_t value = 0;
  EXPECT_TRUE(file >> value);
  EXPECT_EQ(value, 10);
}

}  // namespace
}  // namespace softnic_test
