// StepCost: how long do a copy, a reduction, and the bytes of a put keep a core busy?
#pragma once

#include <algorithm>

#include "collectives/plan/model/simulator.hpp"

namespace twohop {

class StepCost {
 public:
  StepCost(const CostProgram& program, const NetworkModel& model, const SimulatedSize& size)
      : frame_(program.frame),
        layout_(*size.layout),
        step_us_(model.step_us),
        copy_us_(us_per_byte(model.copy_gbytes_per_s)),
        reduce_us_(us_per_byte(model.reduce_gbytes_per_s)),
        memory_us_(us_per_byte(model.memory_gbytes_per_s)),
        send_us_(us_per_byte(model.send_gbytes_per_s)),
        receive_us_(us_per_byte(model.receive_gbytes_per_s)) {
    // Ranks of a machine share its cache.
    const double nodes =
        model.nodes_per_machine == 0 ? program.cluster->nnodes() : static_cast<double>(model.nodes_per_machine);
    const double footprint = static_cast<double>(size.buffer_bytes) * program.cluster->max_local_size() * nodes;
    missed_ = footprint > 0 ? std::max(0.0, 1 - model.cache_bytes / footprint) : 0;
  }

  double of(const CostStep& s, int channel, int64_t round) const {
    const auto bytes = static_cast<double>(chunk_bytes(s, s.chunk, channel, round));
    if (bytes == 0) return 0;
    const double cached = bytes * (s.kind == StepKind::kCopy ? copy_us_ : s.srcs * reduce_us_);
    const double memory = bytes * s.user_operands * memory_us_;
    return step_us_ + cached + missed_ * std::max(0.0, memory - cached);
  }
  uint64_t put_bytes(const CostStep& s, int channel, int64_t round) const {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s.srcs; ++i)
      bytes += chunk_bytes(s, (s.chunk + i) % static_cast<uint32_t>(frame_.chunks), channel, round);
    return bytes;
  }
  double sending(uint64_t bytes) const { return static_cast<double>(bytes) * send_us_; }
  double receiving(uint64_t bytes) const { return static_cast<double>(bytes) * receive_us_; }

 private:
  static double us_per_byte(double gbytes_per_s) { return gbytes_per_s > 0 ? 1e-3 / gbytes_per_s : 0; }
  uint64_t chunk_bytes(const CostStep& s, uint32_t chunk, int channel, int64_t round) const {
    return layout_.extent(Space::kOutput, channel, round, s.shard, static_cast<int>(chunk)).bytes;
  }

  const Frame& frame_;
  const Layout& layout_;
  double step_us_, copy_us_, reduce_us_, memory_us_, send_us_, receive_us_;
  double missed_ = 0;  // share of user bytes that come from memory
};

}  // namespace twohop
