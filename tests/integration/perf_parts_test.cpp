// Do allreduce_perf's parts do what users and their scripts expect: options, checker, statistics, table, JSON?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/model/tuner.hpp"
#include "iteration_stats.hpp"
#include "json_report.hpp"
#include "pattern.hpp"
#include "perf_options.hpp"
#include "result_table.hpp"
#include "tune_table.hpp"

namespace twohop::perf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::variant<PerfOptions, ParseStop> parse(std::vector<const char*> args) {
  args.insert(args.begin(), "allreduce_perf");
  return parse_options(static_cast<int>(args.size()), args.data());
}

std::string refusal(std::vector<const char*> args) {
  auto parsed = parse(std::move(args));
  auto* stop = std::get_if<ParseStop>(&parsed);
  return stop && stop->exit_code == 2 ? stop->text : "accepted";
}

TEST(PerfOptions, HasTheDefaultsOfNcclTests) {
  auto o = std::get<PerfOptions>(parse({}));
  EXPECT_EQ(o.min_bytes, 32u << 20);
  EXPECT_EQ(o.max_bytes, 32u << 20);
  EXPECT_EQ(o.step_bytes, 1u << 20);
  EXPECT_EQ(o.iters, 20);
  EXPECT_EQ(o.warmup, 1);
  EXPECT_EQ(o.checks, 1);
  EXPECT_EQ(o.average, Average::kMean);
  EXPECT_THAT(o.types, ElementsAre("float"));
  EXPECT_THAT(o.ops, ElementsAre("sum"));
  EXPECT_THAT(sweep(o), ElementsAre(32u << 20));
}

TEST(PerfOptions, SweepsByFactorAndByStep) {
  EXPECT_THAT(sweep(std::get<PerfOptions>(parse({"-b", "8", "-e", "1K", "-f", "4"}))), ElementsAre(8, 32, 128, 512));
  EXPECT_THAT(sweep(std::get<PerfOptions>(parse({"-b", "0", "-e", "4", "-f", "2"}))), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(sweep(std::get<PerfOptions>(parse({"-b", "1M", "-e", "3M"}))), ElementsAre(1 << 20, 2 << 20, 3 << 20));
}

TEST(PerfOptions, TakesSizesWithUnits) {
  EXPECT_EQ(parse_size("8"), 8u);
  EXPECT_EQ(parse_size("1K"), 1024u);
  EXPECT_EQ(parse_size("16m"), 16u << 20);
  EXPECT_EQ(parse_size("1.5G"), 1536u << 20);
  EXPECT_EQ(parse_size("2MB"), 2u << 20);
  for (const char* bad : {"", "K", "8Q", "-1", "1KK", "nan", "1e99", "8 K"}) EXPECT_FALSE(parse_size(bad)) << bad;
}

TEST(PerfOptions, ExpandsAllAndRefusesUnknownNames) {
  EXPECT_EQ(std::get<PerfOptions>(parse({"-d", "all"})).types.size(), 12u);
  EXPECT_EQ(std::get<PerfOptions>(parse({"-o", "all"})).ops.size(), 6u);
  EXPECT_THAT(std::get<PerfOptions>(parse({"--scheme", "two-hop,flat"})).schemes, ElementsAre("two-hop", "flat"));
  EXPECT_THAT(std::get<PerfOptions>(parse({"--scheme", "flat,two-hop,flat"})).schemes, ElementsAre("flat", "two-hop"));
  for (const Algorithm& a : algorithms())
    EXPECT_THAT(std::get<PerfOptions>(parse({"--scheme", std::string(a.name).c_str()})).schemes, ElementsAre(a.name));
  EXPECT_THAT(refusal({"-d", "float16"}), HasSubstr("half"));
  EXPECT_THAT(refusal({"--scheme", "ring"}), HasSubstr("flat-naive"));
  EXPECT_THAT(refusal({"-b", "2M", "-e", "1M"}), HasSubstr("above"));
}

TEST(PerfOptions, HasTheRangesOfTheLibrary) {
  for (const char* good : {"0", "1", "1024"}) EXPECT_EQ(refusal({"--ranks-per-node", good}), "accepted");
  for (const char* bad : {"-1", "1025", "2000"}) EXPECT_THAT(refusal({"--ranks-per-node", bad}), HasSubstr("1024"));
  for (const char* good : {"1", "604800"}) EXPECT_EQ(refusal({"-T", good}), "accepted");
  for (const char* bad : {"0", "0.5", "604801", "999999"}) EXPECT_THAT(refusal({"-T", bad}), HasSubstr("604800"));
}

TEST(PerfOptions, AcceptsGpuFlagsOnlyWhereTheyChangeNothing) {
  EXPECT_EQ(refusal({"-g", "1", "-t", "1", "-p", "1", "-z", "0", "-G", "0", "-R", "0"}), "accepted");
  EXPECT_THAT(refusal({"-g", "8"}), HasSubstr("a process is one rank"));
  EXPECT_THAT(refusal({"-G", "2"}), HasSubstr("no GPU"));
}

TEST(PerfOptions, ReadsBucketListsAndNamesTheBadLine) {
  EXPECT_THAT(std::get<0>(parse_buckets("# head\n1M\n\n  42 # tail\n")), ElementsAre(1 << 20, 42));
  EXPECT_THAT(std::get<1>(parse_buckets("1\nx2\n")), HasSubstr("line 2: 'x2'"));
  EXPECT_THAT(std::get<1>(parse_buckets("# nothing\n")), HasSubstr("no bucket sizes"));
}

TEST(Element, ConversionsKnowTheFormats) {
  auto bits = [](const char* name, double value) {
    uint64_t b = 0;
    encode(type_info(std::string(name)), value, &b);
    return b;
  };
  EXPECT_EQ(bits("half", 1.0), 0x3c00u);
  EXPECT_EQ(bits("half", -65504), 0xfbffu);
  EXPECT_EQ(bits("half", std::ldexp(1, -24)), 1u);
  EXPECT_EQ(bits("bfloat16", 1.0), 0x3f80u);
  EXPECT_EQ(bits("f8e4m3", 448), 0x7eu);
  EXPECT_EQ(bits("f8e4m3", std::ldexp(1, -9)), 1u);
  EXPECT_EQ(bits("f8e5m2", 57344), 0x7bu);
  float f = -3.25f;
  double d = 1e300;
  uint32_t fbits;
  uint64_t dbits;
  std::memcpy(&fbits, &f, 4);
  std::memcpy(&dbits, &d, 8);
  EXPECT_EQ(bits("float", f), fbits);
  EXPECT_EQ(bits("double", d), dbits);
}

TEST(Element, EveryBitPatternOfSmallFloatsSurvivesARoundTrip) {
  for (const char* name : {"half", "bfloat16", "f8e4m3", "f8e5m2"}) {
    const TypeInfo& type = type_info(std::string(name));
    for (uint64_t bits = 0; bits < uint64_t{1} << (8 * type.bytes); ++bits) {
      double value = decode(type, &bits);
      if (!std::isfinite(value)) continue;
      uint64_t back = 0;
      encode(type, value, &back);
      ASSERT_EQ(back, bits) << name;
    }
  }
}

class PatternCase : public testing::TestWithParam<int> {};

/// Reduces in rank order with one rounding per step, as plain code would.
std::vector<unsigned char> reduce_plainly(const TypeInfo& type, Op op, int n, const Pattern& pattern, size_t count) {
  std::vector<std::vector<unsigned char>> in(static_cast<size_t>(n), std::vector<unsigned char>(count * type.bytes));
  for (int r = 0; r < n; ++r) pattern.fill_input(r, in[static_cast<size_t>(r)].data(), count);
  std::vector<unsigned char> out(count * type.bytes);
  for (size_t i = 0; i < count; ++i) {
    double total = 0;
    for (int r = 0; r < n; ++r) {
      double x = decode(type, &in[static_cast<size_t>(r)][i * type.bytes]);
      if (op == Op::kMulSum) x *= Pattern::scalar(r);
      if (op == Op::kAvg) x = type.bytes == 8 ? x * (1.0 / n) : static_cast<float>(x) * (1.0f / static_cast<float>(n));
      total = r == 0            ? x
              : op == Op::kProd ? total * x
              : op == Op::kMax  ? std::max(total, x)
              : op == Op::kMin  ? std::min(total, x)
                                : total + x;
    }
    if (type.bytes == 4) total = static_cast<float>(total);
    if (op == Op::kAvg && type.significand_bits <= 11) total = std::nearbyint(total * 512) / 512;
    encode(type, total, &out[i * type.bytes]);
  }
  return out;
}

TEST_P(PatternCase, AcceptsThePlainResultOfEveryFloatingOperation) {
  for (const auto& type : types())
    for (const auto& name : op_names()) {
      if (!type.floating || (name == "avg" && type.significand_bits <= 4)) continue;
      Pattern pattern(type, op_of(name), GetParam(), 1000);
      auto result = reduce_plainly(type, op_of(name), GetParam(), pattern, 1000);
      EXPECT_EQ(pattern.count_wrong_result(result.data(), 1000), 0u) << type.name << " " << name;
    }
}

TEST_P(PatternCase, NoticesAMissingRank) {
  int n = GetParam();
  if (n < 2) return;
  for (const auto& type : types()) {
    if (!type.floating) continue;
    Pattern pattern(type, Op::kSum, n, 1000);
    for (int missing = 0; missing < n; ++missing) {
      auto all = reduce_plainly(type, Op::kSum, n, pattern, 1000);
      std::vector<unsigned char> in(1000 * type.bytes);
      pattern.fill_input(missing, in.data(), 1000);
      for (size_t i = 0; i < 1000; ++i)
        encode(type, decode(type, &all[i * type.bytes]) - decode(type, &in[i * type.bytes]), &all[i * type.bytes]);
      EXPECT_GT(pattern.count_wrong_result(all.data(), 1000), 10u) << type.name << " rank " << missing;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, PatternCase, testing::Values(1, 2, 3, 4, 7, 8, 40));

TEST(Pattern, NoticesADisplacedChunk) {
  constexpr size_t kCount = 1 << 20;
  const TypeInfo& type = type_info(twohopInt32);
  Pattern pattern(type, Op::kSum, 1, kCount);  // of one rank: the result is the input
  std::vector<unsigned char> good(kCount * 4);
  pattern.fill_input(0, good.data(), kCount);
  ASSERT_EQ(pattern.count_wrong_result(good.data(), kCount), 0u);
  for (size_t by : {1u, 32u, 1024u, 65521u, 65536u, 131042u}) {
    auto bad = good;
    std::memcpy(&bad[0], &good[by * 4], 4096 * 4);
    EXPECT_GT(pattern.count_wrong_result(bad.data(), kCount), 4000u) << by;
  }
}

TEST(Pattern, ChecksFromAnyFirstElement) {
  const TypeInfo& type = type_info(twohopInt64);
  Pattern pattern(type, Op::kSum, 1, 300000);
  std::vector<unsigned char> all(300000 * 8);
  pattern.fill_input(0, all.data(), 300000);
  for (size_t first : {0u, 1u, 65520u, 65521u, 200000u})
    EXPECT_EQ(pattern.count_wrong_result(&all[first * 8], 300000 - first, first), 0u) << first;
  EXPECT_EQ(pattern.count_wrong_input(0, all.data(), 300000), 0u);
  all[5] ^= 1;
  EXPECT_EQ(pattern.count_wrong_input(0, all.data(), 300000), 1u);
}

TEST(IterationStats, SummarizesAndCombines) {
  std::vector<double> t(200);
  for (size_t i = 0; i < 200; ++i) t[i] = static_cast<double>(i + 1);
  auto s = summarize(t);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 200);
  EXPECT_EQ(s.median, 100.5);
  EXPECT_EQ(s.p99, 198);
  std::vector<double> two_ranks{1, 2, 3, 6};
  EXPECT_THAT(combine_ranks(two_ranks, 2, Average::kRank0), ElementsAre(1, 2));
  EXPECT_THAT(combine_ranks(two_ranks, 2, Average::kMean), ElementsAre(2, 4));
  EXPECT_THAT(combine_ranks(two_ranks, 2, Average::kMin), ElementsAre(1, 2));
  EXPECT_THAT(combine_ranks(two_ranks, 2, Average::kMax), ElementsAre(3, 6));
  std::vector<double> rounds{1, 3, 100, 100, 4, 4};
  EXPECT_EQ(median_of_round_means(rounds, 3), 4);
  EXPECT_EQ(median_of_round_means(rounds, 1), 212.0 / 6);
  std::vector<double> uneven{1, 2, 3, 100, 100, 5, 7};  // 1 2 | 3 100 | 100 5 7
  EXPECT_EQ(median_of_round_means(uneven, 3), 112.0 / 3);
}

TEST(IterationStats, RoundsShareAllIterationsAndNoMore) {
  for (size_t iters : {5u, 6u, 7u, 9u, 20u, 101u})
    for (size_t rounds : {1u, 2u, 5u}) {
      size_t next = 0;
      for (size_t r = 0; r < rounds; ++r) {
        auto [first, last] = round_part(iters, rounds, r);
        EXPECT_EQ(first, next);
        EXPECT_GT(last, first);
        EXPECT_LE(last - first, iters / rounds + 1);
        next = last;
      }
      EXPECT_EQ(next, iters);
    }
}

Row example() {
  Row row;
  row.scheme = "two-hop";
  row.type = "float";
  row.op = "sum";
  row.bytes = 33554432;
  row.count = 8388608;
  row.out_of_place.time_us = 12345.678;
  row.in_place.time_us = 99.5;
  row.out_of_place.nwrong = 0;
  row.out_of_place.internode_bytes = 33600000;
  return row;
}

TEST(ResultTable, HasTheColumnsOfNcclTests) {
  EXPECT_EQ(
      table_row(example(), 4, {}),
      "    33554432       8388608     float     sum      -1  12345.7    2.72    4.08       0    99.50  337.23  505.85"
      "     N/A\n");
  std::regex known(R"(^\s*\d+\s+\d+\s+\w+\s+\w+\s+-?\d+\s+[\d.].*\n)");
  for (bool per_iteration : {false, true}) {
    std::string text = table_row(example(), 4, {.per_iteration = per_iteration});
    EXPECT_TRUE(std::regex_match(text, known)) << text;
    std::istringstream words(text);
    EXPECT_EQ(std::distance(std::istream_iterator<std::string>(words), {}), per_iteration ? 21 : 13);
  }
  EXPECT_THAT(table_footer(0, 1.5), HasSubstr("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5 \n"));
  EXPECT_THAT(table_footer(7, 1.5), HasSubstr("7 FAILED"));
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

TEST(ResultTable, HasWhatTheNetworkDidWhenAsked) {
  Row row = example();
  row.out_of_place.network = {.puts = 640,
                              .doorbells = 80,
                              .work_requests = 700,
                              .signalled_completions = 50,
                              .rail_bytes = {1000, 2000},
                              .retries = 3,
                              .reissued_puts = 4};
  row.in_place.network.puts = 12;  // over TCP
  const std::vector<std::string> words = words_of(table_row(row, 4, {.verbs = true}));
  ASSERT_EQ(words.size(), 27u);
  EXPECT_EQ(std::vector(words.begin() + 9, words.begin() + 16),
            (std::vector<std::string>{"640", "80", "700", "50", "1000/2000", "3", "4"}));
  EXPECT_EQ(std::vector(words.begin() + 20, words.end()),
            (std::vector<std::string>{"12", "-", "-", "-", "-", "-", "-"}));
  const std::string header = table_header({.per_iteration = true, .verbs = true});
  EXPECT_THAT(header, HasSubstr("over all ranks"));
  EXPECT_THAT(header, testing::ContainsRegex("i_cv% +puts +bells +WRs +signals +rail_bytes +retries +reissued"));
  // Names, units and rows end in the same column.
  const std::string line = table_row(row, 4, {.per_iteration = true, .verbs = true});
  EXPECT_EQ(header.substr(header.rfind('#')).size(), line.size() + 1) << header << line;
}

RankRetries retries_of(std::vector<double> retries, std::vector<double> ports) {
  RankRetries r;
  r.rails = r.counting_rails = static_cast<double>(ports.size());
  std::copy(retries.begin(), retries.end(), r.retries.begin());
  std::copy(ports.begin(), ports.end(), r.port_low.begin());
  return r;
}

TEST(NetworkCounts, CountARetryOncePerPort) {
  EXPECT_EQ(total_retries(std::vector{retries_of({3, 5}, {1, 2}), retries_of({4, 5}, {1, 2})}), 9u);
  EXPECT_EQ(total_retries(std::vector{retries_of({3, 5}, {1, 2}), retries_of({4, 5}, {7, 8})}), 17u);
  EXPECT_EQ(total_retries(std::vector<RankRetries>(2)), 0u);  // no rails
  RankRetries silent = retries_of({0}, {1});
  silent.counting_rails = 0;
  EXPECT_EQ(total_retries(std::vector{silent}), std::nullopt);
}

TEST(NetworkCounts, AreDifferencesSummedOverRanks) {
  twohopCounters_t before{}, after{};
  before.puts = 10;
  after.puts = 17;
  after.nrails = 2;
  after.rail_bytes[1] = 100;
  before.rail_retries[0] = 9;  // the device's counters were reset
  RankCounts rank;
  RankRetries retries;
  rank.add(before, after);
  rank.add(before, after);
  retries.add(before, after);
  NetworkCounts all;
  all.add(rank);
  all.add(rank);
  EXPECT_EQ(all.puts, 28u);
  EXPECT_EQ(all.rail_bytes, (std::vector<uint64_t>{0, 400}));
  EXPECT_EQ(retries.retries[0], 0);
}

TEST(ResultTable, FitsNumbersIntoTheirColumns) {
  EXPECT_EQ(fit_number(0.04, 7), "   0.04");
  EXPECT_EQ(fit_number(9999.5, 7), "9999.50");
  EXPECT_EQ(fit_number(99999.5, 7), "99999.5");
  EXPECT_EQ(fit_number(1234567, 7), "1234567");
  EXPECT_EQ(fit_number(12345678, 7), "1.2e+07");
}

TEST(ResultTable, ComparesSchemesWithTheAnalyticBound) {
  Row flat = example();
  flat.scheme = "flat";
  flat.out_of_place.time_us *= 2;
  std::string text = comparison({flat, example()}, {"flat", "two-hop"}, {4, 2});
  EXPECT_THAT(text, HasSubstr("0.50         33600000     1.001")) << text;
}

TEST(ResultTable, ComparesRowsOfTheSameSizeByTheirPlace) {
  std::vector<Row> rows(4, example());
  for (size_t i = 0; i < 4; ++i) {
    rows[i].scheme = i % 2 ? "two-hop" : "flat";
    rows[i].out_of_place.time_us = std::vector<double>{100, 50, 1000, 750}[i];
  }
  std::string text = comparison(rows, {"flat", "two-hop"}, {4, 2});
  EXPECT_THAT(text, testing::ContainsRegex("two-hop +50.00 +0.50 ")) << text;
  EXPECT_THAT(text, testing::ContainsRegex("two-hop +750.00 +0.75 ")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3 + 4 + 1) << text;
}

Row timed(const char* scheme, size_t bytes, double time_us) {
  Row row;
  row.scheme = scheme;
  row.bytes = bytes;
  row.out_of_place.time_us = row.in_place.time_us = time_us;
  return row;
}

TEST(TuneTable, HasTheFastestSchemeOfEachSize) {
  const std::vector<Row> rows{timed("flat", 100, 1),     timed("two-hop", 100, 2), timed("auto", 100, 0.1),
                              timed("flat", 400, 2),     timed("two-hop", 400, 3), timed("flat", 6400, 9),
                              timed("two-hop", 6400, 5), timed("flat", 25600, 50), timed("two-hop", 25600, 20)};
  const auto table = parse_tuner_table(tune_table(rows));
  ASSERT_TRUE(table) << table.error().message;
  ASSERT_EQ(table->rows.size(), 2u);
  EXPECT_EQ(table->rows[0].choice.algorithm->name, "flat");
  EXPECT_EQ(table->rows[0].max_bytes, 1600u);
  EXPECT_EQ(table->rows[1].choice.algorithm->name, "two-hop");
}

TEST(TuneTable, IsEmptyWhereNothingWasMeasuredForIt) {
  EXPECT_EQ(tune_table({}), "");
  EXPECT_EQ(tune_table({timed("auto", 100, 1)}), "");
}

TEST(PerfOptions, TunesOverAllSchemesUnlessSomeAreNamed) {
  EXPECT_GT(std::get<PerfOptions>(parse({"--tune", "t.json"})).schemes.size(), 3u);
  EXPECT_THAT(std::get<PerfOptions>(parse({"--tune", "t.json", "--scheme", "flat,two-hop"})).schemes,
              ElementsAre("flat", "two-hop"));
}

TEST(JsonReport, HasOneResultPerPlacement) {
  auto j = nlohmann::json::parse(json_report(PerfOptions{}, {4, 2}, "mpi", {example()}));
  EXPECT_EQ(j["config"]["nranks"], 4);
  ASSERT_EQ(j["results"].size(), 2u);
  EXPECT_EQ(j["results"][0]["scheme"], "two-hop");
  EXPECT_EQ(j["results"][0]["in_place"], false);
  EXPECT_EQ(j["results"][0]["nwrong"], 0);
  EXPECT_TRUE(j["results"][1]["nwrong"].is_null());
  EXPECT_TRUE(j["results"][0]["time_us"].contains("p99"));
  EXPECT_DOUBLE_EQ(j["results"][0]["busbw"].get<double>(), 33554432 / 12345.678e3 * 1.5);
  for (const char* name : {"puts", "doorbells", "work_requests", "signalled_completions"})
    EXPECT_EQ(j["results"][0][name], 0) << name;
  EXPECT_TRUE(j["results"][0]["rail_bytes"].is_array());
  EXPECT_TRUE(j["results"][0]["retries"].is_null());
  EXPECT_TRUE(j["results"][0]["reissued_puts"].is_null());
}

}  // namespace
}  // namespace twohop::perf
