// one-shot: all-reduce of small buffers on one node. Every rank shows its input to all, and every rank folds all inputs
// itself: one wait for the others instead of two, for n times the reading.
#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/builder.hpp"

namespace twohop::one_shot {
namespace {

enum Lane : int { kStage = 0, kFold = 1 };

bool supports(const Cluster& cluster, Collective c) {
  return c == Collective::kAllReduce && cluster.nnodes() == 1;
}

Frame frame(const Request& r) {
  Frame f;
  f.collective = r.collective;
  f.chunks = f.chunks_per_block = f.chunks_per_put = r.depths.chunks_per_put;
  f.slots = r.depths.blocks * r.depths.chunks_per_put;
  f.put_slots = r.depths.put_slots;
  return f;
}

Program program(const Request& r, int rank) {
  Program p;
  LaneBuilder stage(p, kStage), fold(p, kFold);
  const int k = r.depths.chunks_per_put;
  const auto& peers = r.cluster->peers_of(rank);
  const bool alone = peers.size() == 1;
  for (int i = 0; i < k; ++i) {
    const ChunkId chunk{0, i};
    const Linear slot = linear(k, i), done = linear(k, i + 1);
    const Linear slot_read = linear(k, i + 1 - int64_t{r.depths.blocks} * k);
    for (int peer : peers)
      if (peer != rank) stage.wait(peer, kFold, slot_read);
    if (!alone) {
      stage.copy(chunk, window(rank, 0, slot), input(rank));
      stage.signal();
    }
    std::vector<Ref> srcs;
    for (int peer : peers) {
      if (!alone) fold.wait(peer, kStage, done);  // also for our own: in place, the fold overwrites what is staged
      srcs.push_back(peer == rank ? input(rank) : window(peer, 0, slot, peer));
    }
    fold.reduce(chunk, output(rank), std::move(srcs), true);
    fold.signal();
  }
  return p;
}

double bytes_out_per_byte(const Request&, int) {
  return 0;
}

}  // namespace

extern const Algorithm kAlgorithm;
const Algorithm kAlgorithm{"one-shot", supports, frame, program, bytes_out_per_byte};

}  // namespace twohop::one_shot
