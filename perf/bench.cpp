// With several schemes their iterations are interleaved in rounds, so that what disturbs the machine for a while
// disturbs all of them, and the median over the rounds is reported.
#include "bench.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <span>
#include <type_traits>
#include <utility>

namespace twohop::perf {
namespace {

constexpr size_t kRounds = 5;
constexpr size_t kGuardBytes = 128;  // after the receive buffer: must stay as they are
constexpr unsigned char kGuard = 0xa5;

/// For gathering: a struct of doubles as numbers.
template <class Counts>
std::span<const double> numbers_of(const Counts& counts) {
  static_assert(std::is_trivially_copyable_v<Counts> && sizeof(Counts) % sizeof(double) == 0);
  return {reinterpret_cast<const double*>(&counts), sizeof(Counts) / sizeof(double)};
}

}  // namespace

struct Bench::Case {
  const TypeInfo& type;
  const Pattern& pattern;
  std::vector<size_t> counts;
  std::vector<twohopRedOp_t> ops;  // one per scheme: a pre-multiplied sum belongs to one communicator
  std::string op_name;
  bool in_place = false;
};

struct Bench::Samples {
  std::vector<std::vector<double>> times_us;  // [call][iteration]
  std::vector<double> sent, wrong;            // [call]
  std::vector<RankCounts> counts;             // [call]
  RankRetries retries;                        // of all calls
  int node = 0;

  explicit Samples(size_t calls) : times_us(calls), sent(calls), wrong(calls), counts(calls) {}
  void count(size_t call, const twohopCounters_t& before, const twohopCounters_t& after) {
    sent[call] += static_cast<double>(after.net_bytes_sent - before.net_bytes_sent);
    counts[call].add(before, after);
  }
};

Bench::Bench(const Session& session, Place& place, const PerfOptions& options, size_t max_bytes)
    : session_(session), place_(place), options_(options), buffer_bytes_(max_bytes) {
  rounds_ = session.schemes().size() > 1 ? std::min<size_t>(kRounds, static_cast<size_t>(options.iters)) : 1;
  send_ = place_.allocate(max_bytes + kGuardBytes);
  recv_ = place_.allocate(max_bytes + kGuardBytes);
  if (place_.on_gpu()) shadow_ = std::make_unique<unsigned char[]>(max_bytes + kGuardBytes);
  if (!options.registered) return;
  for (unsigned char* buffer : {send_, recv_})
    registrations_.push_back(session.register_memory(buffer, max_bytes + kGuardBytes));
}

Bench::~Bench() {
  if (std::uncaught_exceptions() > 0) return;  // the job ends, and other ranks do not come to deregister with this one
  for (const auto& handles : registrations_) session_.deregister_memory(handles);
  place_.free(send_);
  place_.free(recv_);
}

void Bench::call(const Case& c, size_t scheme, size_t which) const {
  session_.all_reduce(scheme, c.in_place ? recv_ : send_, recv_, c.counts[which], c.type.type, c.ops[scheme],
                      place_.stream());
}

void Bench::time_batch(const Case& c, size_t scheme, int iters, Samples& samples) const {
  twohopComm_t comm = session_.schemes()[scheme].comm;
  size_t calls = c.counts.size();
  const bool ask_devices = options_.verbs || !options_.json_file.empty();  // it takes a while: not near the clock
  const twohopCounters_t at_start = read_counters(comm, ask_devices);
  session_.require(twohopBarrier(comm, place_.stream()), "twohopBarrier", comm);
  twohopCounters_t before = read_counters(comm, false);
  auto take = [&](size_t call_of_first) {
    size_t k = call_of_first;
    for (double us : place_.take_laps()) samples.times_us[k++ % calls].push_back(us);
  };
  place_.lap();
  for (int i = 0; i < iters; ++i)
    for (size_t k = 0; k < calls; ++k) {
      call(c, scheme, k);
      place_.lap();
      if (calls == 1 || place_.on_gpu()) continue;  // one call: it is counted over the whole batch, outside the clock
      take(k);
      const twohopCounters_t after = read_counters(comm, false);
      samples.count(k, std::exchange(before, after), after);
      place_.lap();
    }
  take(0);
  if (calls == 1) samples.count(0, before, read_counters(comm, false));
  samples.retries.add(at_start, read_counters(comm, ask_devices));
}

/// Input of this rank, and the guard behind it.
void Bench::fill(const Case& c, unsigned char* buffer, size_t count) const {
  unsigned char* at = shadow_ ? shadow_.get() : buffer;
  c.pattern.fill_input(session_.rank(), at, count);
  if (shadow_) place_.write(buffer, at, count * c.type.bytes);
}

void Bench::guard(unsigned char* from, size_t bytes) const {
  unsigned char* at = shadow_ ? shadow_.get() : from;
  std::memset(at, kGuard, bytes);
  if (shadow_) place_.write(from, at, bytes);
}

/// Of the result, of the input that must be as it was, and of the guard behind the result.
uint64_t Bench::wrong_elements(const Case& c, size_t count) {
  const size_t bytes = count * c.type.bytes;
  auto seen = [&](const unsigned char* buffer, size_t n) {
    if (!shadow_) return buffer;
    place_.read(shadow_.get(), buffer, n);
    return static_cast<const unsigned char*>(shadow_.get());
  };
  const unsigned char* result = seen(recv_, bytes + kGuardBytes);
  uint64_t wrong = c.pattern.count_wrong_result(result, count);
  wrong += static_cast<uint64_t>(
      std::count_if(result + bytes, result + bytes + kGuardBytes, [](unsigned char b) { return b != kGuard; }));
  if (!c.in_place) wrong += c.pattern.count_wrong_input(session_.rank(), seen(send_, bytes), count);
  return wrong;
}

void Bench::check(const Case& c, size_t scheme, Samples& samples) {
  for (size_t k = 0; k < c.counts.size(); ++k) {
    size_t count = c.counts[k], bytes = count * c.type.bytes;
    for (int repeat = 0; repeat < options_.checks; ++repeat) {
      fill(c, c.in_place ? recv_ : send_, count);
      c.in_place ? guard(recv_ + bytes, kGuardBytes) : guard(recv_, bytes + kGuardBytes);
      call(c, scheme, k);
      if (!place_.wait()) session_.require(twohopUnhandledCudaError, "waiting for the stream", nullptr);
      samples.wrong[k] += static_cast<double>(wrong_elements(c, count));
    }
  }
}

std::vector<Bench::Samples> Bench::run(const Case& c) {
  size_t nschemes = session_.schemes().size();
  std::vector<Samples> samples(nschemes, Samples(c.counts.size()));
  size_t most = *std::max_element(c.counts.begin(), c.counts.end());
  fill(c, send_, most);
  fill(c, recv_, most);
  for (size_t s = 0; s < nschemes; ++s)
    for (int i = 0; i < options_.warmup; ++i)
      for (size_t k = 0; k < c.counts.size(); ++k) call(c, s, k);
  for (size_t round = 0; round < rounds_; ++round) {
    auto [first, last] = round_part(static_cast<size_t>(options_.iters), rounds_, round);
    for (size_t s = 0; s < nschemes; ++s) {
      progress(c, s, round);
      time_batch(c, s, static_cast<int>(last - first), samples[s]);
    }
  }
  for (size_t s = 0; s < nschemes; ++s) check(c, s, samples[s]);
  return samples;
}

/// Every rank's samples of one scheme, rank by rank.
std::vector<Bench::Samples> Bench::share(const Samples& mine, size_t calls) const {
  std::vector<double> flat;
  for (const auto& times : mine.times_us) flat.insert(flat.end(), times.begin(), times.end());
  flat.insert(flat.end(), mine.sent.begin(), mine.sent.end());
  flat.insert(flat.end(), mine.wrong.begin(), mine.wrong.end());
  auto add = [&](std::span<const double> more) { flat.insert(flat.end(), more.begin(), more.end()); };
  for (const RankCounts& counts : mine.counts) add(numbers_of(counts));
  add(numbers_of(mine.retries));
  flat.push_back(session_.node());
  std::vector<double> all = session_.gather(flat);
  std::vector<Samples> ranks(static_cast<size_t>(session_.nranks()), Samples(calls));
  auto at = all.begin();
  for (auto& rank : ranks) {
    auto take = [&](std::vector<double>& into, size_t n) {
      into.assign(at, at + static_cast<std::ptrdiff_t>(n));
      at += static_cast<std::ptrdiff_t>(n);
    };
    for (size_t k = 0; k < calls; ++k) take(rank.times_us[k], mine.times_us[k].size());
    take(rank.sent, calls);
    take(rank.wrong, calls);
    auto take_counts = [&](auto& counts) {
      std::memcpy(static_cast<void*>(&counts), &*at, sizeof counts);
      at += static_cast<std::ptrdiff_t>(numbers_of(counts).size());
    };
    for (RankCounts& counts : rank.counts) take_counts(counts);
    take_counts(rank.retries);
    rank.node = static_cast<int>(*at++);
  }
  return ranks;
}

/// Calls [first, last) of all ranks as one figure: a single call, or a whole step.
Measurement Bench::merge(const std::vector<Samples>& ranks, size_t first, size_t last, size_t rounds) const {
  size_t iters = ranks[0].times_us[first].size();
  std::vector<double> times;
  std::map<int, double> sent_by_node;
  double wrong = 0;
  Measurement m;
  std::vector<RankRetries> retries;
  for (const auto& rank : ranks) {
    for (size_t i = 0; i < iters; ++i) {
      double sum = 0;
      for (size_t k = first; k < last; ++k) sum += rank.times_us[k][i];
      times.push_back(sum);
    }
    for (size_t k = first; k < last; ++k) {
      sent_by_node[rank.node] += rank.sent[k] / static_cast<double>(iters);
      wrong += rank.wrong[k];
      m.network.add(rank.counts[k]);
    }
    retries.push_back(rank.retries);
  }
  // A device's counters are not read between the calls of a step.
  if (first == 0 && last == ranks[0].times_us.size()) {
    m.network.retries = total_retries(retries);
    m.network.reissued_puts = total_reissued(retries);
  }
  auto combined = combine_ranks(times, iters, options_.average);
  m.time_us = median_of_round_means(combined, rounds);
  m.time = summarize(combined);
  m.slowest_rank = summarize(combine_ranks(times, iters, Average::kMax));
  for (const auto& [node, sent] : sent_by_node) m.internode_bytes = std::max(m.internode_bytes, sent);
  if (options_.checks > 0) m.nwrong = static_cast<uint64_t>(wrong);
  return m;
}

std::vector<twohopRedOp_t> Bench::make_ops(const TypeInfo& type, Op op) const {
  std::vector<twohopRedOp_t> ops;
  for (const auto& scheme : session_.schemes()) {
    auto handle = static_cast<twohopRedOp_t>(op);
    if (op == Op::kMulSum) {
      unsigned char scalar[8];
      double factor = Pattern::scalar(session_.rank());
      type.floating ? encode(type, factor, scalar) : encode_int(type, static_cast<uint64_t>(factor), scalar);
      session_.require(twohopRedOpCreatePreMulSum(&handle, scalar, type.type, scheme.comm),
                       "twohopRedOpCreatePreMulSum", scheme.comm);
    }
    ops.push_back(handle);
  }
  return ops;
}

void Bench::append_rows(const Case& c, bool is_step, size_t scheme, const Samples& out_of_place,
                        const Samples& in_place, std::vector<Row>& rows) const {
  size_t calls = c.counts.size();
  auto out = share(out_of_place, calls), in = share(in_place, calls);
  auto append = [&](size_t first, size_t last, int bucket, bool whole_step) {
    Row row;
    row.scheme = session_.schemes()[scheme].name;
    row.type = c.type.name;
    row.op = c.op_name;
    for (size_t k = first; k < last; ++k) row.count += c.counts[k];
    row.bytes = row.count * c.type.bytes;
    row.bucket = bucket;
    row.whole_step = whole_step;
    row.out_of_place = merge(out, first, last, rounds_);
    row.in_place = merge(in, first, last, rounds_);
    rows.push_back(std::move(row));
  };
  for (size_t k = 0; k < calls; ++k) append(k, k + 1, is_step ? static_cast<int>(k) : -1, false);
  if (is_step) append(0, calls, -1, true);
}

std::vector<Row> Bench::measure(const std::string& type_name, const std::string& op_name, const Workload& workload) {
  const TypeInfo& type = type_info(type_name);
  Op op = op_of(op_name);
  std::vector<size_t> counts;
  for (size_t bytes : workload.bytes) counts.push_back(bytes / type.bytes);
  Pattern pattern(type, op, session_.nranks(), *std::max_element(counts.begin(), counts.end()));
  Case c{type, pattern, counts, make_ops(type, op), op_name};
  auto out_of_place = run(c);
  c.in_place = true;
  auto in_place = run(c);

  std::vector<Row> rows;
  for (size_t s = 0; s < c.ops.size(); ++s) {
    append_rows(c, workload.is_step, s, out_of_place[s], in_place[s], rows);
    if (op == Op::kMulSum) (void)twohopRedOpDestroy(c.ops[s], session_.schemes()[s].comm);
  }
  return rows;
}

void Bench::progress(const Case& c, size_t scheme, size_t round) const {
  if (session_.rank() != 0 || !isatty(STDERR_FILENO)) return;
  fmt::print(stderr, "\r\033[K# {} {} {} B {} {} round {}/{}", c.type.name, c.op_name, c.counts.back() * c.type.bytes,
             c.in_place ? "in place" : "out of place", session_.schemes()[scheme].name, round + 1, rounds_);
  std::fflush(stderr);
}

}  // namespace twohop::perf
