// Does every kind of work request do what the specification says, and is every trespass caught?
#include "fabric.hpp"

namespace softnic_test {
namespace {

bool same(const End& a, size_t at, const End& b, size_t there, size_t bytes) {
  return std::memcmp(a.memory.data() + at, b.memory.data() + there, bytes) == 0;
}

TEST(Write, MovesTheBytesAndNothingElse) {
  use_settings();
  Pair pair;
  auto r = pair.a.request(IBV_WR_RDMA_WRITE, 5000, pair.b.address());
  r.wr.wr.rdma.remote_addr += 100;
  ASSERT_EQ(pair.a.post(r), 0);
  ibv_wc wc = pair.a.next();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
  EXPECT_TRUE(same(pair.a, 0, pair.b, 100, 5000));
  EXPECT_EQ(pair.b.memory[99], 0);
  EXPECT_EQ(pair.b.memory[5100], 0);
  EXPECT_TRUE(pair.b.nothing());
}

TEST(Write, ImmediateTakesAReceiveAndLeavesItsBufferAlone) {
  use_settings();
  Pair pair;
  ASSERT_EQ(pair.b.receive(60000, 16, 42), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE_WITH_IMM, 3000, pair.b.address()), 0);
  ibv_wc wc = pair.b.next();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.wr_id, 42u);
  EXPECT_EQ(wc.imm_data, 0x1234u);
  EXPECT_EQ(wc.byte_len, 3000u);
  EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
  EXPECT_EQ(wc.qp_num, pair.b.qp->qp_num);
  EXPECT_TRUE(same(pair.a, 0, pair.b, 0, 3000));
}

TEST(Write, OfNoBytesNeedsNoKey) {
  use_settings();
  Pair pair;
  pair.b.receive(0, 0);
  auto r = pair.a.request(IBV_WR_RDMA_WRITE_WITH_IMM, 0, pair.b.address());
  r.wr.wr.rdma = {0, 0};
  r.wr.num_sge = 0;
  ASSERT_EQ(pair.a.post(r), 0);
  EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.b.next().byte_len, 0u);
}

TEST(Send, ScattersOverTheReceiversSegments) {
  use_settings();
  Pair pair;
  auto base = reinterpret_cast<uint64_t>(pair.b.memory.data());
  ibv_sge sges[3] = {{base + 10, 7, pair.b.mr->lkey}, {base + 100, 0, 0}, {base + 200, 50, pair.b.mr->lkey}};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.sg_list = sges;
  wr.num_sge = 3;
  ASSERT_EQ(ibv_post_recv(pair.b.qp, &wr, &bad), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_SEND_WITH_IMM, 30, pair.b.address()), 0);
  ibv_wc wc = pair.b.next();
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.byte_len, 30u);
  EXPECT_EQ(wc.imm_data, 0x1234u);
  EXPECT_TRUE(same(pair.a, 0, pair.b, 10, 7));
  EXPECT_TRUE(same(pair.a, 7, pair.b, 200, 23));
}

TEST(Send, InlineDataMayChangeAfterThePost) {
  use_settings("latency=2ms");
  Pair pair;
  pair.b.receive(0, 64);
  auto r = pair.a.request(IBV_WR_SEND, 40, pair.b.address());
  r.wr.send_flags |= IBV_SEND_INLINE;
  r.sge.lkey = 0;  // not looked at
  std::vector<uint8_t> before = pair.a.memory;
  ASSERT_EQ(pair.a.post(r), 0);
  std::fill(pair.a.memory.begin(), pair.a.memory.end(), 0xee);
  EXPECT_EQ(pair.b.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(pair.b.memory.data(), before.data(), 40), 0);
  r.sge.length = 65;
  EXPECT_EQ(pair.a.post(r), EINVAL) << "more than max_inline_data";
}

TEST(Read, BringsTheBytes) {
  use_settings();
  Pair pair;
  for (size_t i = 0; i < 9000; i++) pair.b.memory[i] = static_cast<uint8_t>(i * 3);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_READ, 9000, pair.b.address()), 0);
  ibv_wc wc = pair.a.next();
  EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(wc.byte_len, 9000u);
  EXPECT_TRUE(same(pair.a, 0, pair.b, 0, 9000));
}

TEST(Read, NeedsAnAllowanceOnBothSides) {
  use_settings();
  Pair none({}, {}, [](ibv_qp_attr& a) { a.max_rd_atomic = 0; });
  none.a.post(IBV_WR_RDMA_READ, 8, none.b.address());
  EXPECT_EQ(none.a.next().status, IBV_WC_LOC_QP_OP_ERR);
  Pair refused({}, {}, [](ibv_qp_attr& a) { a.max_dest_rd_atomic = 0; });
  refused.a.post(IBV_WR_RDMA_READ, 8, refused.b.address());
  EXPECT_EQ(refused.a.next().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST(Atomic, FetchAddAndCompareSwap) {
  use_settings();
  Pair pair;
  auto* there = reinterpret_cast<uint64_t*>(pair.b.memory.data());
  auto* here = reinterpret_cast<uint64_t*>(pair.a.memory.data());
  *there = 40;
  auto r = pair.a.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, pair.b.address());
  r.wr.wr.atomic.compare_add = 2;
  ASSERT_EQ(pair.a.post(r), 0);
  EXPECT_EQ(pair.a.next().opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(*here, 40u);
  EXPECT_EQ(*there, 42u);
  r = pair.a.request(IBV_WR_ATOMIC_CMP_AND_SWP, 8, pair.b.address());
  r.wr.wr.atomic.compare_add = 42;
  r.wr.wr.atomic.swap = 7;
  pair.a.post(r);
  EXPECT_EQ(pair.a.next().opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(*there, 7u);
  pair.a.post(r);
  EXPECT_EQ(pair.a.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(*here, 7u) << "the old value comes back";
  EXPECT_EQ(*there, 7u) << "and nothing is swapped";
  r.wr.wr.atomic.remote_addr += 4;
  pair.a.post(r);
  EXPECT_EQ(pair.a.next().status, IBV_WC_REM_INV_REQ_ERR) << "misaligned";
}

// ---- trespasses

// What the requester's completion says after a change of the request; both ends are then in error.
ibv_wc_status trespass(ibv_wr_opcode opcode, const std::function<void(End::Request&, Pair&)>& change,
                       const Shape& b = {}) {
  use_settings();
  Pair pair({}, b);
  pair.b.receive(0, 64);
  auto r = pair.a.request(opcode, 64, pair.b.address());
  change(r, pair);
  EXPECT_EQ(pair.a.post(r), 0);
  ibv_wc wc = pair.a.next();
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  return wc.status;
}

TEST(Keys, EveryTrespassOnTheRemoteSideIsAnAccessError) {
  auto write = [](const std::function<void(End::Request&, Pair&)>& change) {
    return trespass(IBV_WR_RDMA_WRITE, change);
  };
  EXPECT_EQ(write([](auto& r, Pair&) { r.wr.wr.rdma.rkey ^= 1 << 20; }), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write([](auto& r, Pair&) { r.wr.wr.rdma.rkey = 0; }), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write([](auto& r, Pair&) { r.wr.wr.rdma.remote_addr--; }), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write([](auto& r, Pair& p) { r.wr.wr.rdma.remote_addr += p.b.memory.size() - 63; }), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write([](auto& r, Pair&) { r.wr.wr.rdma.remote_addr = UINT64_MAX - 10; }), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write([](auto& r, Pair& p) { r.wr.wr.rdma.rkey = p.a.mr->rkey; }), IBV_WC_REM_ACCESS_ERR)
      << "another domain";
  Shape read_only;
  read_only.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  EXPECT_EQ(trespass(
                IBV_WR_RDMA_WRITE, [](auto&, Pair&) {}, read_only),
            IBV_WC_REM_ACCESS_ERR);
  Shape no_read;
  no_read.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  EXPECT_EQ(trespass(
                IBV_WR_RDMA_READ, [](auto&, Pair&) {}, no_read),
            IBV_WC_REM_ACCESS_ERR);
}

TEST(Keys, LocalTrespassesFailBeforeAnythingMoves) {
  EXPECT_EQ(trespass(IBV_WR_RDMA_WRITE, [](auto& r, Pair&) { r.sge.lkey ^= 1 << 20; }), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(trespass(IBV_WR_SEND, [](auto& r, Pair& p) { r.sge.addr += p.a.memory.size() - 10; }), IBV_WC_LOC_PROT_ERR);
}

TEST(Keys, ADeregisteredRegionGrantsNothing) {
  use_settings();
  Pair pair;
  Address before = pair.b.address();
  ASSERT_EQ(ibv_dereg_mr(pair.b.mr), 0);
  pair.b.mr = nullptr;
  pair.a.post(IBV_WR_RDMA_WRITE, 8, before);
  EXPECT_EQ(pair.a.next().status, IBV_WC_REM_ACCESS_ERR);
}

TEST(Keys, AnAccessErrorBreaksBothEndsAndTheResponderHearsOfIt) {
  use_settings();
  Pair pair;
  pair.b.receive(0, 64, 77);
  auto r = pair.a.request(IBV_WR_RDMA_WRITE, 64, pair.b.address());
  r.wr.wr.rdma.rkey++;
  pair.a.post(r);
  ibv_wc wc = pair.a.next();
  EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_NE(wc.vendor_err, 0u);
  EXPECT_TRUE(pair.b.hears(IBV_EVENT_QP_ACCESS_ERR));
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  wc = pair.b.next();
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc.wr_id, 77u);
  EXPECT_EQ(pair.a.counter("resp_remote_access_errors"), 1);
}

TEST(Send, ThatIsTooLongFailsOnBothSides) {
  use_settings();
  Pair pair;
  pair.b.receive(0, 10, 5);
  pair.a.post(IBV_WR_SEND, 11, pair.b.address());
  EXPECT_EQ(pair.a.next().status, IBV_WC_REM_INV_REQ_ERR);
  ibv_wc wc = pair.b.next();
  EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

TEST(Mtu, TwoEndsThatDisagreeRefuseLongMessages) {
  use_settings();
  End a, b;
  a.connect(b.address());
  b.connect(a.address(), [](ibv_qp_attr& attributes) { attributes.path_mtu = IBV_MTU_512; });
  a.post(IBV_WR_RDMA_WRITE, 512, b.address());
  EXPECT_EQ(a.next().status, IBV_WC_SUCCESS);
  a.post(IBV_WR_RDMA_WRITE, 513, b.address());
  EXPECT_EQ(a.next().status, IBV_WC_REM_INV_REQ_ERR);
}

}  // namespace
}  // namespace softnic_test
