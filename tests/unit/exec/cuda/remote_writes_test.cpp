// Which GPUs need a flush after the network has written to them, for whom.
#include "collectives/exec/cuda/remote_writes.hpp"

#include <gtest/gtest.h>

namespace twohop {
namespace {

constexpr int kNone = cudaGPUDirectRDMAWritesOrderingNone, kOwner = cudaGPUDirectRDMAWritesOrderingOwner,
              kAll = cudaGPUDirectRDMAWritesOrderingAllDevices, kHost = cudaFlushGPUDirectRDMAWritesOptionHost,
              kMemOps = cudaFlushGPUDirectRDMAWritesOptionMemOps;

TEST(RemoteWrites, ThatOnlyTheOwnerSeesInOrderAreFlushedForOtherGpus) {
  EXPECT_EQ(remote_writes(kOwner, kHost, false), RemoteWrites::kVisible);
  EXPECT_EQ(remote_writes(kOwner, kHost, true), RemoteWrites::kNeedFlush);
}

TEST(RemoteWrites, ThatAllGpusSeeInOrderNeedNoFlush) {
  for (const bool for_all : {false, true}) EXPECT_EQ(remote_writes(kAll, 0, for_all), RemoteWrites::kVisible);
}

TEST(RemoteWrites, ThatNobodySeesInOrderAreFlushedWhereTheCpuCan) {
  for (const bool for_all : {false, true}) {
    EXPECT_EQ(remote_writes(kNone, kHost | kMemOps, for_all), RemoteWrites::kNeedFlush);
    EXPECT_EQ(remote_writes(kNone, kMemOps, for_all), RemoteWrites::kCannotBeFlushed) << "only a stream could";
  }
}

}  // namespace
}  // namespace twohop
