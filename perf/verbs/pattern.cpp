// See pattern.hpp.
#include "pattern.hpp"

#include <algorithm>
#include <cstring>

#include "ports.hpp"

namespace twohop::verbs_perf {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr size_t kBudgetBytes = size_t{16} << 20;  // of all sources or of all targets; more only for large messages
constexpr std::byte kGuard{0xa5}, kEmpty{0};

uint64_t mix(uint64_t x) {  // the finaliser of MurmurHash3: every input bit reaches every output bit
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

uint64_t stream_of(const RowSpec& row, int writer, size_t qp, size_t slot) {
  return mix(mix(row.seed * 2 + static_cast<uint64_t>(writer)) + (uint64_t{qp} << 32) + slot);
}

/// Calls f(offset, bytes, value) for the words of a slot; the last may be short.
template <class F>
void for_words(size_t size, uint64_t stream, F&& f) {
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t value = mix(stream + at) | 1;  // never all zero: an empty slot is not a pattern
    f(at, std::min<size_t>(8, size - at), value);
  }
}

void fill(std::byte* slot, size_t size, uint64_t stream) {
  for_words(size, stream, [&](size_t at, size_t n, uint64_t v) { std::memcpy(slot + at, &v, n); });
}

uint64_t count_wrong(const std::byte* slot, size_t size, uint64_t stream) {
  uint64_t wrong = 0;
  for_words(size, stream, [&](size_t at, size_t n, uint64_t v) {
    if (std::memcmp(slot + at, &v, n) == 0) return;
    const auto* expected = reinterpret_cast<const std::byte*>(&v);
    for (size_t i = 0; i < n; ++i) wrong += slot[at + i] != expected[i];
  });
  return wrong;
}

uint64_t count_not(const std::byte* at, size_t bytes, std::byte value) {
  return static_cast<uint64_t>(std::count_if(at, at + bytes, [&](std::byte b) { return b != value; }));
}

void check_guard(std::span<const std::byte> memory, const Layout& l, size_t slot, Verdict& verdict) {
  verdict.wrong += count_not(memory.data() + slot + l.size, l.stride - l.size, kGuard);
}

uint64_t first_word(const RowSpec& row, int end, size_t qp) {
  return stream_of(row, end, qp, 0) >> 1;
}

void check_word(const std::byte* at, uint64_t expected, Verdict& verdict) {
  uint64_t found = 0;
  std::memcpy(&found, at, sizeof found);
  verdict.bytes += sizeof found;
  if (found != expected) verdict.wrong += sizeof found;
}

}  // namespace

Layout::Layout(const RowSpec& row, size_t n)
    : queue_pairs(n), size(row.size), stride((row.size + 63) / 64 * 64 + kGuardBytes) {
  const size_t fit = std::max<size_t>(1, kBudgetBytes / (stride * n));
  source_slots = std::min(fit, static_cast<size_t>(row.tx_depth));
  target_slots = row.op == Op::kSend ? std::min<size_t>(fit, receive_depth(row)) : source_slots;
}

void prepare(std::span<std::byte> memory, const Layout& l, const RowSpec& row, int end) {
  std::fill(memory.begin(), memory.end(), kGuard);
  for (size_t qp = 0; qp < l.queue_pairs; ++qp) {
    for (size_t s = 0; s < l.source_slots; ++s)
      fill(memory.data() + l.source(qp, s), l.size, stream_of(row, end, qp, s));
    for (size_t s = 0; s < l.target_slots; ++s) std::fill_n(memory.data() + l.target(qp, s), l.size, kEmpty);
    if (row.op != Op::kAtomic) continue;
    const uint64_t word = first_word(row, end, qp);
    std::memcpy(memory.data() + l.target(qp, 0), &word, sizeof word);
  }
}

Verdict verify(std::span<const std::byte> memory, const Layout& l, const RowSpec& row, int writer,
               std::span<const Arrivals> arrivals) {
  Verdict verdict;
  for (size_t qp = 0; qp < l.queue_pairs; ++qp)
    for (size_t s = 0; s < l.target_slots; ++s) {
      const Arrivals& a = arrivals[qp];
      const std::byte* slot = memory.data() + l.target(qp, s);
      check_guard(memory, l, l.target(qp, s), verdict);
      const bool written = a.landed.empty() ? s < a.messages : a.landed[s] != 0;
      const size_t source = a.landed.empty() ? s : (a.landed[s] - 1) % l.source_slots;
      verdict.bytes += written ? l.size : 0;
      verdict.wrong +=
          written ? count_wrong(slot, l.size, stream_of(row, writer, qp, source)) : count_not(slot, l.size, kEmpty);
    }
  return verdict;
}

Verdict verify_words(std::span<const std::byte> memory, const Layout& l, const RowSpec& row, int end,
                     std::span<const uint64_t> adds) {
  Verdict verdict;
  for (size_t qp = 0; qp < l.queue_pairs; ++qp) {
    check_word(memory.data() + l.target(qp, 0), first_word(row, end, qp) + adds[qp], verdict);
    check_guard(memory, l, l.target(qp, 0), verdict);
  }
  return verdict;
}

Verdict verify_fetched(std::span<const std::byte> memory, const Layout& l, const RowSpec& row, int other_end,
                       std::span<const uint64_t> fetched) {
  Verdict verdict;
  for (size_t qp = 0; qp < l.queue_pairs; ++qp)
    for (uint64_t s = 0; s < std::min<uint64_t>(l.source_slots, fetched[qp]); ++s) {
      // The last message that used the slot.
      const uint64_t last = s + (fetched[qp] - 1 - s) / l.source_slots * l.source_slots;
      check_word(memory.data() + l.source(qp, s), first_word(row, other_end, qp) + last, verdict);
    }
  return verdict;
}

}  // namespace twohop::verbs_perf
