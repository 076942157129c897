// Ranks whose calls run through the device loop on host threads: every lane of every rank is a group of threads that
// play its warps, beside a thread that plays the progress thread, over a network in memory, and one that plays a copy
// engine where the world has some. At every wait, between a put and its arrival, and before a copy, threads are held up
// at random.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/exec/bound_schedule.hpp"
#include "collectives/exec/loop/lane_loop.hpp"
#include "collectives/exec/loop/loop_arguments.hpp"
#include "collectives/exec/loop/network_hop.hpp"
#include "collectives/plan/algorithm.hpp"
#include "unit/gpu/fake_copy_engine.hpp"
#include "unit/gpu/host_group.hpp"

namespace twohop::loop_test {

/// A link of the fabric: what the sender has put and the receiver has not taken yet.
struct Wire {
  std::mutex mutex;
  struct Message {
    CallTag tag;
    std::vector<PutRun> runs;
  };
  std::deque<Message> messages;
  uint64_t taken = 0, released = 0;
};
using Fabric = std::map<std::tuple<int, int, int, int>, Wire>;  // channel, tag, src, dst

/// Reads sources late, when the receiver looks: a source that is overwritten before Sent is noticed.
class FabricEndpoint : public Endpoint {
 public:
  explicit FabricEndpoint(Fabric& fabric) : fabric_(fabric) {}
  const char* name() const override { return "fabric"; }
  Bytes address() const override { return {}; }
  Result<> connect(std::vector<OutLink> out, std::vector<InLink> in, std::span<const Bytes>, Deadline, int) override;
  OutLink& out(size_t i) override { return out_[i]; }
  InLink& in(size_t i) override { return in_[i]; }
  void put(size_t link, const CallTag& tag, std::span<const PutRun> runs) override;
  void release(size_t link) override;
  Result<> flush() override { return {}; }
  Result<bool> poll() override;
  bool output_pending() const override { return false; }
  void wait_for(std::vector<pollfd>&) override {}
  Result<> drain(Deadline) override { return {}; }
  Carrier carrier_of(size_t, uint64_t, uint64_t, uint64_t, uint64_t) const override { return {"the fabric", -1}; }
  EndpointCounters counters() const override { return {}; }

 private:
  static Wire& wire(Fabric& fabric, const LinkId& id) { return fabric.at({id.channel, id.tag, id.src, id.dst}); }
  Fabric& fabric_;
  std::vector<OutLink> out_;
  std::vector<InLink> in_;
};

/// Who copies between GPU memory and what is said to be host memory: the windows, or what the network reaches.
enum class HostMemory { kNone, kInboxes, kAll };

/// How big everything is.
struct WorldSize {
  int channels = 1;
  uint64_t window_bytes = 8192, inbox_bytes = 4096;  // of a half
  uint64_t chunk_bytes = 512, bytes_per_channel = 1024;
  int threads_per_group = 2;
  Depths depths{};
  HostMemory host = HostMemory::kNone;
  int engine_every = 0;  // rank 0 and every n-th have a copy engine; 0: none
};

class World;

/// One rank: its memory, as a GPU would hold it, and its progress thread.
class LoopRank {
 public:
  LoopRank(World& world, int rank);
  ~LoopRank();
  void connect();  // once all ranks have been made

  /// Runs one call; every rank's calls are run by one thread of its own. Returns the fault, if any. `registered`: the
  /// other ranks read its contribution where it lies, if the call allows it.
  std::optional<Error> run(const Call& call, const Algorithm& algorithm, bool registered = false);
  /// Makes the running call and later ones end.
  void stop() { store_release(&report_.stop, 1); }

 private:
  friend class World;
  void progress();
  void make_hop();
  bool has_engine() const;
  LoopCall arguments(const Call& call, const BoundSchedule& schedule, const Layout& layout);

  World& world_;
  int rank_, me_ = 0;
  std::vector<LinkTable> tables_;
  std::unique_ptr<std::byte[]> memory_;
  size_t board_bytes_ = 0;
  NodeAddresses addresses_;
  std::vector<std::byte*> boards_, boards_of_me_;
  LoopState state_;
  std::vector<LoopLink> out_, in_;
  std::vector<LoopLinkWords> out_words_, in_words_;
  std::vector<PutEntry> entries_;
  std::vector<std::byte> staging_;
  uint64_t tickets_ = 0, taken_ = 0;
  LoopReport report_;
  std::vector<std::byte*> regions_;
  std::unique_ptr<FabricEndpoint> endpoint_;
  std::unique_ptr<NetworkHop> hop_;
  std::atomic<bool> over_{false};
  std::thread progress_;
};

class World {
 public:
  World(const Cluster& cluster, const WorldSize& size);
  ~World();
  int nranks() const { return cluster.nranks(); }
  LoopRank& rank(int r) { return *ranks_[r]; }

  Cluster cluster;
  WorldSize size;
  WindowMap map;
  LayoutLimits limits;
  Fabric fabric;
  CopyEngineBehaviour copies;

 private:
  std::vector<std::unique_ptr<LoopRank>> ranks_;
};

}  // namespace twohop::loop_test
