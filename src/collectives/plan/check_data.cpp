// See check_data.hpp.
#include "collectives/plan/check_data.hpp"

#include <fmt/format.h>

namespace twohop {

CheckData::CheckData(const CheckSetup& setup, const std::vector<CheckedCall>& calls)
    : setup_(setup),
      sets_(setup.cluster.nranks()),
      cells_(setup.nranks(), setup.inboxes, setup.frames, calls),
      memory_(cells_.size()),
      chunks_out_of_node_(setup.cluster.nnodes()) {
  for (size_t c = 0; c < calls.size(); ++c) {
    in_place_.push_back(calls[c].in_place);
    unscaled_.push_back(!calls[c].direct.empty());
    const Frame& f = setup.frames[c];
    expressions_.emplace_back(size_t(calls[c].rounds) * f.shards * f.chunks);
  }
}

CheckData::Verdict CheckData::fold(int rank, const Step& step, const ChunkName& chunk, const Access& access) {
  Value value;
  const Verdict fault =
      step.kind == StepKind::kCopy ? read(step.srcs[0], chunk, access, value) : reduce(step, chunk, access, value);
  if (fault) return fault;
  const size_t to = locate(step.dst, chunk);
  if (to == kNowhere) return FaultKind::kProtocol;
  if (step.dst.space == Space::kOutput && !setup_.meanings[chunk.call].has_output(rank, chunk.shard, chunk.index))
    return FaultKind::kProtocol;
  return memory_.write(to, step.dst.space == Space::kWindow ? CellSpace::kWindow : CellSpace::kUser, value, access);
}

CheckData::Verdict CheckData::reduce(const Step& step, const ChunkName& chunk, const Access& access, Value& sum) {
  sum.chunk = chunk;
  sum.is_void = setup_.meanings[chunk.call].is_void(chunk.shard, chunk.index);
  sum.final = step.final;
  Digest expression;
  for (size_t i = 0; i < step.srcs.size(); ++i) {
    Value operand;
    if (const Verdict fault = read(step.srcs[i], chunk, access, operand)) return fault;
    if (const Verdict fault = add_operand(step.srcs[i], operand, i == 0, sum)) return fault;
    expression.add(operand.expression);
    expression.add(static_cast<uint64_t>(operand.made_at));
    if (setup_.rotation && chunk.round == 0) operands_[&step].push_back(operand.ranks);
  }
  sum.expression = expression.value();
  return std::nullopt;
}

/// The rules for an operand of a reduce; `sum` holds those before it.
CheckData::Verdict CheckData::add_operand(const Ref& ref, const Value& operand, bool first, Value& sum) {
  const RankSets::Id together = first ? operand.ranks : sets_.unite(sum.ranks, operand.ranks);
  if (together == RankSets::kOverlap) return FaultKind::kContributionDoubled;
  if (operand.final) return FaultKind::kScaling;
  if (operand.raw_of != ref.raw_of && !unscaled_[sum.chunk.call]) return FaultKind::kScaling;
  if (!first && sets_.lowest(operand.ranks) < sets_.lowest(sum.ranks)) return FaultKind::kOperandOrder;
  sum.ranks = together;
  return std::nullopt;
}

CheckData::Verdict CheckData::put(int link, const Step& step, const ChunkName& first, const Access& tx,
                                  const Access& rx) {
  const int64_t number = step.target.at(first.round);
  const int inbox = setup_.links[link].inbox;
  if (number == 0 && !memory_.all_free(cells_.inbox_half(inbox, first.call), cells_.inbox_half_size(), rx.clock))
    return FaultKind::kCallOvertaken;
  for (size_t i = 0; i < step.srcs.size(); ++i) {
    const ChunkName chunk = part(first, i);
    Value value;
    if (const Verdict fault = read(step.srcs[i], chunk, tx, value)) return fault;
    if (chunk.call == 0 && !value.is_void) ++chunks_out_of_node_[setup_.cluster.node_of[setup_.links[link].src]];
    if (setup_.rotation) value = seen_behind(value, setup_.links[link].nodes_ahead);
    const size_t to = cells_.inbox(inbox, chunk.call, number, static_cast<int>(i));
    if (const Verdict fault = memory_.write(to, CellSpace::kInbox, value, rx)) return fault;
  }
  return std::nullopt;
}

ChunkName CheckData::part(const ChunkName& first, size_t i) const {
  ChunkName chunk = first;
  chunk.index = static_cast<int32_t>((first.index + i) % setup_.frames[first.call].chunks);
  return chunk;
}

std::optional<Fault> CheckData::check_outputs(int call, int rank) {
  const Frame& f = setup_.frames[call];
  const int rounds = static_cast<int>(expressions_[call].size()) / (f.shards * f.chunks);
  ChunkName c{call, 0, 0, 0};
  for (c.round = 0; c.round < rounds; ++c.round)
    for (c.shard = 0; c.shard < f.shards; ++c.shard)
      for (c.index = 0; c.index < f.chunks; ++c.index) {
        if (!setup_.meanings[call].has_output(rank, c.shard, c.index)) continue;
        if (const Verdict fault = output_fault(rank, c))
          return Fault{*fault, fmt::format("output: call {} rank {} round {} shard {} chunk {}", call, rank, c.round,
                                           c.shard, c.index)};
      }
  return std::nullopt;
}

CheckData::Verdict CheckData::output_fault(int rank, const ChunkName& c) {
  const Meaning& meaning = setup_.meanings[c.call];
  const size_t at = cells_.user(rank, c);
  if (in_place_[c.call] && memory_.cell(at).fresh() && meaning.has_input(rank, c.shard, c.index))
    memory_.init(at, input_value(rank, c));
  const Value& v = memory_.cell(at).value;
  if (memory_.cell(at).fresh() || v.ranks != meaning.expected(sets_, c.shard, c.index))
    return FaultKind::kContributionMissing;
  if (v.final != meaning.reduces() || (v.raw_of < 0) != meaning.reduces()) return FaultKind::kScaling;
  const Frame& f = meaning.frame();
  // By symmetry another node sees the chunks of all blocks alike, made as far from it as the blocks are apart.
  const int index = setup_.rotation ? setup_.rotation->first_like(c.index, f.chunks) : c.index;
  Digest made;
  made.add(v.expression);
  if (setup_.rotation) made.add(static_cast<uint64_t>(setup_.rotation->from_block(v.made_at, c.index, f.chunks)));
  uint64_t& first = expressions_[c.call][(size_t(c.round) * f.shards + c.shard) * f.chunks + index];
  if (first == 0) first = made.value();
  return first == made.value() ? Verdict() : FaultKind::kUnequalBits;
}

Value CheckData::seen_behind(Value v, int nodes) {
  const Rotation& rotation = *setup_.rotation;
  v.chunk.index = rotation.chunk(v.chunk.index, -nodes, setup_.frames[v.chunk.call].chunks);
  v.ranks = sets_.rotate(v.ranks, -nodes * rotation.group());
  if (v.raw_of >= 0) v.raw_of = rotation.rank(v.raw_of, -nodes);
  v.made_at = rotation.node(v.made_at - nodes);
  return v;
}

std::optional<Fault> CheckData::check_other_nodes(const std::vector<CheckedCall>& calls) const {
  for (size_t c = 0; c < calls.size(); ++c)
    for (const int node : setup_.rotation->samples())
      for (int local = 0; local < setup_.nranks(); ++local) {
        const Program& here = setup_.programs[c][local];
        const Program there = program_of(setup_.cluster, calls[c], setup_.rotation->rank(local, node));
        const auto order = [&](const Step& step, size_t operand) {
          return sets_.lowest_rotated(operands_.at(&step)[operand], node * setup_.rotation->group());
        };
        if (const char* wrong = setup_.rotation->difference(here, there, node, setup_.frames[c].chunks, order))
          return Fault{FaultKind::kAsymmetry,
                       fmt::format("call {}: local rank {} of node {} against node 0: {}", c, local, node, wrong)};
      }
  return std::nullopt;
}

// ---- Cells ----

size_t CheckData::locate(const Ref& ref, const ChunkName& chunk) const {
  if (ref.space == Space::kInput || ref.space == Space::kOutput) return cells_.user(ref.owner, chunk);
  const int64_t index = ref.index.at(chunk.round);
  if (index < 0) return kNowhere;
  if (ref.space == Space::kWindow) return cells_.window(ref.owner, chunk.call, ref.area, index);
  const auto& in = setup_.programs[chunk.call][ref.owner].in;
  for (size_t i = 0; i < in.size(); ++i)
    if (in[i].tag == ref.area && in[i].peer == ref.from)
      return inbox_cell(setup_.in[chunk.call][ref.owner][i], chunk.call, index, ref.part);
  return kNowhere;
}

CheckData::Verdict CheckData::read(const Ref& ref, const ChunkName& chunk, const Access& access, Value& value) {
  if (ref.space == Space::kInput) {
    if (!setup_.meanings[chunk.call].has_input(ref.owner, chunk.shard, chunk.index)) return FaultKind::kReadTooEarly;
    value = input_value(ref.owner, chunk);
    if (!in_place_[chunk.call]) return std::nullopt;  // nobody writes it, so that it has no cell
  }
  const size_t at = locate(ref, chunk);
  if (at == kNowhere) return FaultKind::kProtocol;
  if (ref.space == Space::kInput && memory_.cell(at).fresh()) memory_.init(at, value);
  const Verdict fault = memory_.read(at, chunk, access);
  value = memory_.cell(at).value;
  return fault;
}

Value CheckData::input_value(int rank, const ChunkName& chunk) const {
  Value v;
  v.chunk = chunk;
  v.ranks = sets_.single(rank);
  v.raw_of = rank;
  v.expression = static_cast<uint64_t>(rank) + 1;
  v.is_void = setup_.meanings[chunk.call].is_void(chunk.shard, chunk.index);
  return v;
}

// ---- Digests ----

void CheckData::digest(const Step& step, const ChunkName& chunk, const RoundView& view, Digest& digest) const {
  for (size_t i = 0; i < step.srcs.size(); ++i) {
    const size_t at = locate(step.srcs[i], step.kind == StepKind::kPut ? part(chunk, i) : chunk);
    if (at != kNowhere) view.value(digest, memory_.cell(at));
  }
  if (step.kind == StepKind::kPut) return;
  const size_t at = locate(step.dst, chunk);
  if (at != kNowhere) view.value_and_reads(digest, memory_, memory_.cell(at));
}

void CheckData::digest_inbox(int link, const Step& step, const ChunkName& first, const RoundView& view,
                             Digest& digest) const {
  const int64_t number = step.target.at(first.round);
  for (size_t i = 0; i < step.srcs.size(); ++i)
    view.value_and_reads(digest, memory_, memory_.cell(inbox_cell(link, first.call, number, static_cast<int>(i))));
}

}  // namespace twohop
