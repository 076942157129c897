// What steps do to data, for the checker: values move between cells, are folded, and are compared with what the
// collective promises. Order in time is the business of checker.cpp, the rules of access that of check_memory.hpp.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "collectives/plan/check_cells.hpp"
#include "collectives/plan/check_rounds.hpp"
#include "collectives/plan/check_setup.hpp"

namespace twohop {

class CheckData {
 public:
  using Verdict = std::optional<FaultKind>;

  CheckData(const CheckSetup& setup, const std::vector<CheckedCall>& calls);

  /// kCopy and kReduce.
  Verdict fold(int rank, const Step& step, const ChunkName& chunk, const Access& access);
  /// kPut: reads the sources as thread tx, writes the inbox of `link` as thread rx.
  Verdict put(int link, const Step& step, const ChunkName& first, const Access& tx, const Access& rx);
  /// At the end of a rank's call.
  std::optional<Fault> check_outputs(int call, int rank);
  /// By symmetry: programs of other nodes are those of node 0, with operands in the order that their ranks demand.
  std::optional<Fault> check_other_nodes(const std::vector<CheckedCall>& calls) const;
  bool has_unread() const { return memory_.has_unread(); }
  bool has_dead_write() const { return memory_.has_dead_write(); }
  /// By node: chunks put to other nodes in the first call, void ones not counted.
  const std::vector<uint64_t>& chunks_out_of_node() const { return chunks_out_of_node_; }

  /// Digests the cells that a step accesses, as they are before it.
  void digest(const Step& step, const ChunkName& chunk, const RoundView& view, Digest& digest) const;
  void digest_inbox(int link, const Step& step, const ChunkName& first, const RoundView& view, Digest& digest) const;

 private:
  static constexpr size_t kNowhere = SIZE_MAX;

  size_t locate(const Ref& ref, const ChunkName& chunk) const;
  size_t inbox_cell(int link, int call, int64_t put, int part) const {
    return cells_.inbox(setup_.links[link].inbox, call, put, part);
  }
  Verdict read(const Ref& ref, const ChunkName& chunk, const Access& access, Value& value);
  Verdict reduce(const Step& step, const ChunkName& chunk, const Access& access, Value& sum);
  Verdict add_operand(const Ref& ref, const Value& operand, bool first, Value& sum);
  Value input_value(int rank, const ChunkName& chunk) const;
  Verdict output_fault(int rank, const ChunkName& chunk);
  ChunkName part(const ChunkName& first, size_t i) const;
  /// What a node so many nodes before this one has, when this one has `v`.
  Value seen_behind(Value v, int nodes);

  const CheckSetup& setup_;
  std::vector<bool> in_place_;  // by call
  std::vector<bool>
      unscaled_;  // by call: contributions are not scaled, so that raw ones are as good as partial results
  RankSets sets_;
  Cells cells_;
  CheckMemory memory_;
  std::vector<std::vector<uint64_t>> expressions_;  // by call, chunk of the call: of the first output that was seen
  std::vector<uint64_t> chunks_out_of_node_;
  std::map<const Step*, std::vector<RankSets::Id>> operands_;  // by symmetry: of the reduces of round 0
};

}  // namespace twohop
