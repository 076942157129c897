// The parts of verbs_perf that need no device: the matrix, the data and its check, figures, conclusions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "arguments.hpp"
#include "baseline.hpp"
#include "pattern.hpp"
#include "summary.hpp"
#include "timings.hpp"

namespace twohop::verbs_perf {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

Matrix one_rail() {
  Matrix m;
  m.rails = {"a:1"};
  return m;
}

TEST(RowMatrix, HasEveryCombinationOnceAndRepeatsOutermost) {
  Matrix m = one_rail();
  m.sizes = {8, 64};
  m.qps = {1, 2, 4};
  m.directions = {false, true};
  m.repeats = 2;
  const std::vector<RowSpec> rows = expand(m, {});
  ASSERT_EQ(rows.size(), 24u);
  std::set<std::string> once;
  std::set<uint64_t> seeds;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].repeat, i < 12 ? 0 : 1);
    EXPECT_EQ(configuration(rows[i]), configuration(rows[i % 12]));
    once.insert(configuration(rows[i]));
    seeds.insert(rows[i].seed);
  }
  EXPECT_EQ(once.size(), 12u);
  EXPECT_EQ(seeds.size(), 24u);
}

TEST(RowMatrix, DoesNotRepeatWhatAnOperationDoesNotLookAt) {
  Matrix m = one_rail();
  m.ops = {Op::kAtomic};
  m.sizes = {8, 64, 4096};
  m.inlines = {0, 64};
  ASSERT_EQ(expand(m, {}).size(), 1u);
  EXPECT_EQ(expand(m, {}).front().size, kAtomicBytes);
  m.ops = {Op::kRead};
  EXPECT_EQ(expand(m, {}).size(), 3u);
  m.ops = {Op::kWrite};  // inline for 8 and 64
  EXPECT_EQ(expand(m, {}).size(), 5u);
}

TEST(RowSpec, SurvivesItsJsonAndRefusesOthers) {
  RowSpec row;
  row.op = Op::kSend;
  row.bidirectional = true;
  row.size = 12345;
  row.mtu = 2048;
  row.repeat = 7;
  row.max_bytes = UINT64_MAX;
  auto back = row_from_json(to_json(row));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_json(*back), to_json(row));
  for (const auto& [name, value] : std::vector<std::pair<std::string, json>>{{"op", "x"},
                                                                             {"op", 3},
                                                                             {"bytes", 0},
                                                                             {"bytes", "8"},
                                                                             {"qps", 1 << 20},
                                                                             {"qps", -1},
                                                                             {"batch", 4096},
                                                                             {"mtu", 9000},
                                                                             {"direction", "up"},
                                                                             {"max_seconds", 1e300},
                                                                             {"rail", nullptr}}) {
    json j = to_json(row);
    j[name] = value;
    EXPECT_FALSE(row_from_json(j)) << name << " " << value;
    j.erase(name);
    EXPECT_FALSE(row_from_json(j)) << name;
  }
}

/// Both ends' memory of a row, and what a correct exchange makes of it.
class Exchange : public testing::TestWithParam<Op> {
 protected:
  Exchange() : layout_(spec(GetParam()), 2), client_(layout_.bytes()), server_(layout_.bytes()) {
    row_ = spec(GetParam());
    prepare(client_, layout_, row_, 0);
    prepare(server_, layout_, row_, 1);
    arrivals_.resize(2);
    for (size_t q = 0; q < 2; ++q) deliver(q);
  }
  static RowSpec spec(Op op) {
    RowSpec row;
    row.op = op;
    row.size = 100;
    row.tx_depth = 4;
    return row;
  }
  /// Three messages of the client.
  void deliver(size_t q) {
    arrivals_[q].messages = 3;
    if (row_.op == Op::kSend) arrivals_[q].landed.resize(layout_.target_slots);
    for (size_t i = 0; i < 3; ++i) {
      const size_t to = row_.op == Op::kSend ? 2 * i + 1 : i;  // credits have used the receives between
      std::copy_n(client_.begin() + static_cast<std::ptrdiff_t>(layout_.source(q, i)), row_.size,
                  server_.begin() + static_cast<std::ptrdiff_t>(layout_.target(q, to)));
      if (row_.op == Op::kSend) arrivals_[q].landed[to] = i + 1;
    }
  }
  Verdict verdict() const { return verify(server_, layout_, row_, 0, arrivals_); }

  RowSpec row_;
  Layout layout_;
  std::vector<std::byte> client_, server_;
  std::vector<Arrivals> arrivals_;
};

TEST_P(Exchange, OfTheRightBytesIsRight) {
  EXPECT_EQ(verdict().wrong, 0u);
  EXPECT_EQ(verdict().bytes, 2u * 3 * 100);
}

TEST_P(Exchange, NoticesEveryChangedByte) {
  for (size_t at = layout_.target(1, 0); at < layout_.target(1, 0) + 4 * layout_.stride; ++at) {
    server_[at] ^= std::byte{0x10};
    ASSERT_EQ(verdict().wrong, 1u) << at;
    server_[at] ^= std::byte{0x10};
  }
}

TEST_P(Exchange, NoticesMessagesThatAreMissingSwappedOrOfAnotherRow) {
  --arrivals_[0].messages;
  if (row_.op == Op::kSend) arrivals_[0].landed[5] = 0;
  EXPECT_GT(verdict().wrong, 90u);  // bytes where none were sent
  deliver(0);
  arrivals_[1].messages = 4;
  if (row_.op == Op::kSend) arrivals_[1].landed[7] = 4;
  EXPECT_GT(verdict().wrong, 90u);
  if (row_.op == Op::kSend) arrivals_[1].landed[7] = 0;
  deliver(1);
  ASSERT_EQ(verdict().wrong, 0u);
  const auto first = server_.begin() + static_cast<std::ptrdiff_t>(layout_.target(0, row_.op == Op::kSend ? 1 : 0));
  const auto other = server_.begin() + static_cast<std::ptrdiff_t>(layout_.target(1, row_.op == Op::kSend ? 1 : 0));
  std::swap_ranges(first, first + 100, other);
  EXPECT_GT(verdict().wrong, 180u);
  std::swap_ranges(first, first + 100, other);
  ++row_.seed;
  EXPECT_GT(verdict().wrong, 500u);
}

INSTANTIATE_TEST_SUITE_P(Operations, Exchange, testing::Values(Op::kWrite, Op::kSend),
                         [](const auto& info) { return std::string(op_name(info.param)); });

TEST(Atomics, AreCountedToTheLastAdd) {
  RowSpec row;
  row.op = Op::kAtomic;
  row.size = kAtomicBytes;
  row.tx_depth = 4;
  const Layout layout(row, 1);
  std::vector<std::byte> client(layout.bytes()), server(layout.bytes());
  prepare(client, layout, row, 0);
  prepare(server, layout, row, 1);
  const std::vector<uint64_t> adds{10}, none{0};
  auto* word = reinterpret_cast<uint64_t*>(server.data() + layout.target(0, 0));
  EXPECT_EQ(verify_words(server, layout, row, 1, none).wrong, 0u);
  const uint64_t before = *word;
  for (uint64_t i = 0; i < 10; ++i)
    *reinterpret_cast<uint64_t*>(client.data() + layout.source(0, i % layout.source_slots)) = (*word)++;
  EXPECT_EQ(verify_words(server, layout, row, 1, adds).wrong, 0u);
  EXPECT_EQ(verify_fetched(client, layout, row, 1, adds).wrong, 0u);
  EXPECT_EQ(verify_fetched(client, layout, row, 1, adds).bytes, 4 * kAtomicBytes);
  *word = before + 9;  // one add was lost
  EXPECT_EQ(verify_words(server, layout, row, 1, adds).wrong, kAtomicBytes);
  *reinterpret_cast<uint64_t*>(client.data() + layout.source(0, 3)) += 1;
  EXPECT_EQ(verify_fetched(client, layout, row, 1, adds).wrong, kAtomicBytes);
}

TEST(Figures, AreThoseOfPerftest) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const TimeStats s = summarize(values);
  EXPECT_DOUBLE_EQ(s.mean, 50.5);
  EXPECT_EQ(std::vector({s.min, s.p50, s.p99, s.max}), (std::vector<double>{1, 50, 99, 100}));
  RowResult r;
  r.client.bytes = r.server.bytes = 10 << 20;
  r.client.messages = r.server.messages = 1000000;
  r.client.local_s = 1;
  r.server.local_s = 2;
  r.client.global_s = 2.5;
  EXPECT_DOUBLE_EQ(r.average_mib_per_s(), 15);
  EXPECT_DOUBLE_EQ(r.global_mib_per_s(), 8);
  EXPECT_DOUBLE_EQ(r.mpps(), 1.5);
}

TEST(Timings, PeakIsThatOfTheBestTenthAndCompletionsSeenAtOnceAreNoBurst) {
  Timings t(1 << 20);
  t.posted(1000000);
  // 10 ms: a message each 100 us, but 10 more at the same moment in the fifth slice.
  for (uint64_t i = 1; i <= 100; ++i) {
    const uint64_t now = 1000000 + i * 100000;
    t.finished(now, now - 50000, 1);
    for (int extra = 0; i == 45 && extra < 10; ++extra) t.finished(now, now - 50000, 1);
  }
  EndResult r;
  t.fill(r);
  EXPECT_NEAR(r.local_s, 0.01, 1e-9);
  EXPECT_NEAR(r.peak_mib_per_s, 20 / 0.001, 1);
  EXPECT_NEAR(r.first_us, 50, 1e-9);
  EXPECT_NEAR(r.completion_us.mean, 50, 1e-9);
}

TEST(Timings, OfALongRowAreThinnedNotCut) {
  Timings t(1);
  t.posted(0);
  constexpr uint64_t kMany = 1000000;
  for (uint64_t i = 1; i <= kMany; ++i) t.finished(i * 10, i * 10 - 5, 1);
  EndResult r;
  t.fill(r);
  EXPECT_NEAR(r.local_s, kMany * 10e-9, 1e-9);
  EXPECT_NEAR(r.peak_mib_per_s, 1e8 / (1 << 20), 0.02 * 1e8 / (1 << 20));
}

TEST(Timings, OfNothingAreZero) {
  Timings t(8);
  EndResult r;
  t.fill(r);
  EXPECT_EQ(r.local_s, 0);
  EXPECT_EQ(r.completion_us.max, 0);
}

TEST(Figures, RetriesOfAPortThatBothEndsUseCountOnce) {
  RowResult r;
  EXPECT_EQ(r.retries(), std::nullopt);
  r.client.retries = 5;
  r.server.retries = 6;
  r.client.guids = {{"x:1", "1:1"}};
  r.server.guids = {{"x:1", "2:1"}};
  EXPECT_EQ(r.retries(), 11u);
  r.server.guids = {{"y:1", "1:1"}};
  EXPECT_EQ(r.retries(), 6u);
}

TEST(Figures, CountersThatWereResetAreLeftOut) {
  EXPECT_EQ(moved_counters({{"a", 5}, {"b", 7}, {"c", 1}}, {{"a", 6}, {"b", 2}, {"c", 1}, {"d", 4}}, "counters"),
            (Moved{{"counters/a", 1}, {"counters/d", 4}}));
}

RowResult row_of(int qps, uint64_t size, double mib_per_s, int repeat = 0) {
  RowResult r;
  r.row.rail = "a:1";
  r.row.qps = qps;
  r.row.size = size;
  r.row.repeat = repeat;
  r.client.bytes = 100 << 20;
  r.client.local_s = 100 / mib_per_s;
  r.client.retries = r.server.retries = 0;
  return r;
}

TEST(Summary, ComparesRowsThatDifferInOneFactorOnly) {
  const std::vector<RowResult> rows{row_of(1, 64, 100), row_of(2, 64, 150), row_of(2, 128, 200), row_of(4, 64, 450)};
  const auto groups = group_repeats(rows);
  const auto all = single_factor_differences(groups);
  ASSERT_EQ(all.size(), 3u);  // bytes 64 -> 128 with 2 qps; qps 1 -> 2 and 2 -> 4 with 64 bytes
  EXPECT_STREQ(all[0].factor->name, "bytes");
  EXPECT_STREQ(all[1].factor->name, "qps");
  EXPECT_NEAR(all[1].ratio, 1.5, 1e-9);
  EXPECT_NEAR(all[2].ratio, 3, 1e-9);
}

TEST(Summary, SaysWhetherADifferenceIsMoreThanNoise) {
  const std::vector<RowResult> one{row_of(1, 64, 100), row_of(2, 64, 150)};
  EXPECT_THAT(judgement(single_factor_differences(group_repeats(one)).front()), HasSubstr("no spread is known"));
  const std::vector<RowResult> noisy{row_of(1, 64, 80, 0), row_of(1, 64, 120, 1), row_of(2, 64, 100, 0),
                                     row_of(2, 64, 122, 1)};
  EXPECT_THAT(judgement(single_factor_differences(group_repeats(noisy)).front()), HasSubstr("no difference"));
  const std::vector<RowResult> clear{row_of(1, 64, 99, 0), row_of(1, 64, 101, 1), row_of(2, 64, 180, 0),
                                     row_of(2, 64, 184, 1)};
  EXPECT_THAT(judgement(single_factor_differences(group_repeats(clear)).front()),
              HasSubstr("x1.82 (beyond the spread"));
}

TEST(Summary, NamesTheEvidenceThatIsMissingForEveryFactor) {
  RunInfo info;
  std::vector<RowResult> rows{row_of(1, 64, 100), row_of(2, 64, 150)};
  rows[1].client.retries = 9;
  const auto groups = group_repeats(rows);
  const Difference d = single_factor_differences(groups).front();
  std::vector<std::string> evidence = missing_evidence(d, info);
  EXPECT_THAT(evidence[0], HasSubstr("no proof of ECMP"));
  EXPECT_THAT(evidence[0], HasSubstr("counters of each uplink"));
  EXPECT_THAT(evidence[1], HasSubstr("8192 -> 16384"));
  EXPECT_THAT(evidence[2], HasSubstr("retries moved too, 0 -> 9"));
  EXPECT_EQ(evidence.size(), 3u);
  info.one_host = true;
  EXPECT_THAT(missing_evidence(d, info).back(), HasSubstr("one host"));
  info.emulated = true;
  EXPECT_THAT(missing_evidence(d, info).back(), HasSubstr("emulated"));
  for (const Factor& factor : factors()) {
    Difference any = d;
    any.factor = &factor;
    EXPECT_THAT(missing_evidence(any, info).front(), testing::AnyOf(HasSubstr("Missing:"), HasSubstr("missing:")))
        << factor.name;
  }
}

TEST(Baseline, NamesASingleChangeAndNoneAmongSeveral) {
  RunInfo info;
  const std::vector<RowResult> before{row_of(1, 64, 100)};
  const json baseline = json_report(info, before);
  auto compare = [&](RowResult now, double tolerance = 10) {
    auto verdict = compare_with_baseline(baseline, {std::move(now)}, info, tolerance);
    EXPECT_TRUE(verdict) << verdict.error().message;
    return *verdict;
  };
  EXPECT_THAT(compare(row_of(1, 64, 95)).text, HasSubstr("no setting changed"));
  EXPECT_EQ(compare(row_of(1, 64, 95)).slower, 0u);
  EXPECT_EQ(compare(row_of(1, 64, 85)).slower, 1u);
  EXPECT_EQ(compare(row_of(1, 64, 85), 20).slower, 0u);
  RowResult now = row_of(1, 64, 50);
  now.row.tx_depth = 64;
  EXPECT_THAT(compare(now).text, HasSubstr("the single setting that changed: -t 128 -> 64"));
  now.row.cq_mod = 1;
  EXPECT_THAT(compare(now).text, HasSubstr("no single factor can be named"));
  EXPECT_THAT(compare(row_of(2, 64, 50)).text, HasSubstr("qps 1 -> 2: 100.00 -> 50.00"));
  EXPECT_EQ(compare(row_of(2, 64, 50)).compared, 0u);
  EXPECT_THAT(compare(row_of(2, 65, 50)).text, HasSubstr("not in the baseline"));
}

TEST(Baseline, RefusesFilesOfOthers) {
  const std::vector<RowResult> rows{row_of(1, 64, 100)};
  for (const char* text : {"{}", "[]", "3", R"({"results": 1})", R"({"results": []})", R"({"results": [{}]})",
                           R"({"results": [3], "config": 7})"})
    EXPECT_FALSE(compare_with_baseline(json::parse(text), rows, {}, 10)) << text;
}

TEST(Report, RowsSurviveTheirJson) {
  RowResult r = row_of(3, 77, 123);
  r.client.counters = {{"a:1", {{"counters/x", 3}}}};
  r.client.completion_us.p99 = 9.5;
  r.server.retries.reset();
  auto back = rows_from_json(json_report({}, {r}));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_json(back->front()), to_json(r));
  EXPECT_THAT(table_row(r), Not(HasSubstr("cut short")));
  EXPECT_THAT(csv({r}), HasSubstr("\"a:1/counters/x=3\""));
}

TEST(Arguments, TakeListsAndUnits) {
  const char* argv[] = {"verbs_perf", "host", "-s", "8,64K,1M", "-q",          "1,2", "--op",
                        "all",        "-b",   "-x", "1,3",      "--max-bytes", "2G"};
  auto parsed = parse_arguments(std::size(argv), argv);
  ASSERT_TRUE(std::holds_alternative<Arguments>(parsed)) << std::get<Stop>(parsed).text;
  const auto& a = std::get<Arguments>(parsed);
  EXPECT_EQ(a.host, "host");
  EXPECT_EQ(a.matrix.sizes, (std::vector<uint64_t>{8, 65536, 1 << 20}));
  EXPECT_EQ(a.matrix.ops.size(), 5u);
  EXPECT_EQ(a.matrix.directions, std::vector<bool>{true});
  EXPECT_EQ(a.max_bytes, uint64_t{2} << 30);
}

}  // namespace
}  // namespace twohop::verbs_perf
