// See wire.hpp.
#include "collectives/plan/model/wire.hpp"

#include <algorithm>

namespace twohop {
namespace {

constexpr double kBytesPerUs = 1e3;  // of 1e9 bytes per second

uint64_t mix(uint64_t x) {  // a hash as a switch has one: fixed, and without pattern
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ x >> 31;
}

/// One queue pair of one pair of ranks: which up- and downlink it takes.
struct Flow {
  size_t link = 0;
  int channel = 0;
  double demand = 0;  // share of a rail's rate
  size_t up = 0, down = 0;
};

class Spine {
 public:
  Spine(const CostProgram& program, const NetworkModel& model, int channels)
      : program_(program), model_(model), cluster_(*program.cluster), channels_(channels) {
    leaves_ = (cluster_.nnodes() + model.nodes_per_leaf - 1) / model.nodes_per_leaf;
    puts_of_rank_.resize(program.ranks.size());
    for (const CostLink& l : program.links) puts_of_rank_[static_cast<size_t>(l.src)] += l.puts_per_round;
  }

  std::vector<std::vector<double>> shares() {
    for (size_t l = 0; l < program_.links.size(); ++l) add_flows(l);
    std::vector<double> load(2 * static_cast<size_t>(leaves_ * model_.uplinks_per_leaf));
    for (const Flow& f : flows_) load[f.up] += f.demand, load[f.down] += f.demand;
    const double rails_of_leaf = static_cast<double>(model_.nodes_per_leaf * model_.rails);
    const double capacity = rails_of_leaf / model_.oversubscription / static_cast<double>(model_.uplinks_per_leaf);
    std::vector<std::vector<double>> shares(channels_, std::vector<double>(program_.links.size(), 1));
    for (const Flow& f : flows_) {
      double& share = shares[f.channel][f.link];
      share = std::min(share, capacity / std::max(load[f.up], load[f.down]));
    }
    return shares;
  }

 private:
  void add_flows(size_t l) {
    const CostLink& link = program_.links[l];
    if (link.puts_per_round == 0) return;
    const int n = cluster_.nnodes();
    const int first = cluster_.node_of[link.src_rank], second = cluster_.node_of[link.dst_rank];
    const int copies = program_.folded ? n : 1;
    for (int shift = 0; shift < copies; ++shift) {
      const int a = (first + shift) % n, b = (second + shift) % n;
      if (a / model_.nodes_per_leaf == b / model_.nodes_per_leaf) continue;
      add_queue_pairs(l, a, b);
    }
  }
  void add_queue_pairs(size_t l, int a, int b) {
    const CostLink& link = program_.links[l];
    const auto src = static_cast<uint64_t>(cluster_.nodes[a][cluster_.local_of[link.src_rank]]);
    const auto dst = static_cast<uint64_t>(cluster_.nodes[b][cluster_.local_of[link.dst_rank]]);
    const double pairs = static_cast<double>(channels_ * model_.qps_per_connection);
    const double demand = rail_share(link) / pairs;
    for (int c = 0; c < channels_; ++c)
      for (int64_t q = 0; q < model_.qps_per_connection; ++q) {
        // A link's puts share the connection between two ranks, whatever their tag.
        const uint64_t hash = mix(src << 40 ^ dst << 16 ^ static_cast<uint64_t>(c) << 8 ^ static_cast<uint64_t>(q));
        const auto ups = static_cast<uint64_t>(model_.uplinks_per_leaf);
        flows_.push_back(
            {l, c, demand, port(a, hash % ups), port(b + leaves_ * model_.nodes_per_leaf, hash / ups % ups)});
      }
  }
  /// Of what a rank sends at full rate, the part that goes over this link; ranks that share a rail share its rate.
  double rail_share(const CostLink& link) const {
    const double of_rank =
        static_cast<double>(link.puts_per_round) / static_cast<double>(puts_of_rank_[static_cast<size_t>(link.src)]);
    const double ranks = cluster_.local_size(cluster_.node_of[link.src_rank]);
    return of_rank * std::min(static_cast<double>(channels_), static_cast<double>(model_.rails) / ranks);
  }
  size_t port(int64_t node, uint64_t uplink) const {
    return static_cast<size_t>(node / model_.nodes_per_leaf * model_.uplinks_per_leaf + static_cast<int64_t>(uplink));
  }

  const CostProgram& program_;
  const NetworkModel& model_;
  const Cluster& cluster_;
  int channels_;
  int64_t leaves_ = 1;
  std::vector<int64_t> puts_of_rank_;
  std::vector<Flow> flows_;
};

}  // namespace

std::vector<std::vector<double>> spine_shares(const CostProgram& program, const NetworkModel& model, int channels) {
  if (model.nodes_per_leaf == 0 || model.nodes_per_leaf >= program.cluster->nnodes())
    return {static_cast<size_t>(channels), std::vector<double>(program.links.size(), 1)};
  return Spine(program, model, channels).shares();
}

Wire::Wire(const CostProgram& program, const NetworkModel& model, int channels)
    : program_(program),
      model_(model),
      shares_(spine_shares(program, model, channels)),
      rails_(static_cast<size_t>(program.nodes * model.rails)),
      bytes_per_us_(model.rail_gbytes_per_s * kBytesPerUs) {}

int Wire::rail_of(const CostRank& rank, int channel) const {
  return static_cast<int>((rank.local + channel) % model_.rails);
}

Wire::Transfer Wire::send(int link, int channel, uint64_t bytes, double now_us) {
  const CostLink& l = program_.links[static_cast<size_t>(link)];
  const CostRank &src = program_.ranks[static_cast<size_t>(l.src)], &dst = program_.ranks[static_cast<size_t>(l.dst)];
  Transfer t;
  t.rail = rail_of(src, channel);
  Rail& from = rails_[index(src.node, t.rail)];
  Rail& to = rails_[index(dst.node, t.rail)];
  const double rate = bytes_per_us_ * shares_[static_cast<size_t>(channel)][static_cast<size_t>(link)];
  t.begin_us = std::max(now_us, from.out_free_us);
  const double clean = (static_cast<double>(bytes) + model_.header_bytes) / rate;
  // Behind a lost packet is what waits here and what is on its way until the loss is known.
  const double in_flight_us = t.begin_us - now_us + clean + 2 * model_.latency_us;
  const double took = clean / loss_share(model_, 1 + in_flight_us * rate / model_.packet_bytes);
  sent_us_ += took;
  lost_us_ += took - clean;
  t.end_us = t.begin_us + took;
  from.out_free_us = t.end_us;
  from.busy_us += took;
  to.in_free_us = std::max(t.begin_us + model_.latency_us, to.in_free_us) + took;
  t.arrived_us = to.in_free_us;
  return t;
}

double Wire::busiest_us() const {
  double most = 0;
  for (const Rail& r : rails_) most = std::max(most, r.busy_us);
  return most;
}

}  // namespace twohop
