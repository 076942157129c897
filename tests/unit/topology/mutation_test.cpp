// The checks of the fuzz target over the seeds, the fixtures, and a bounded number of mutated copies of each.
#include <gtest/gtest.h>

#include <random>

#include "fuzz/topology_checks.hpp"
#include "unit/topology/files.hpp"

namespace twohop::topology {
namespace {

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  for (const std::string folder : {FUZZ_CORPUS, TOPOLOGY_FIXTURES})
    for (const auto& path : files_in(folder)) texts.push_back(file_text(path));
  return texts;
}

class Mutator {
 public:
  Mutator(unsigned seed, const std::vector<std::string>& texts) : random_(seed), texts_(texts) {}

  std::string mutate(std::string text) {
    for (size_t changes = 1 + pick(4); changes > 0; --changes) change(text);
    return text;
  }

 private:
  size_t pick(size_t n) { return n == 0 ? 0 : std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

  std::string piece_of(const std::string& text) {
    const size_t begin = pick(text.size());
    return text.substr(begin, pick(80));
  }

  void change(std::string& text) {
    const size_t at = pick(text.size() + 1);
    switch (pick(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(pick(256));
        break;
      case 1:
        text.erase(at, pick(40));
        break;
      case 2:
        text.insert(at, piece_of(texts_[pick(texts_.size())]));
        break;
      case 3:
        text.insert(at, piece_of(text));
        break;
      case 4:
        text.resize(at);
        break;
      default:
        text.insert(at, std::to_string(static_cast<int64_t>(random_()) * (pick(2) == 0 ? 1 : -1'000'000'007)));
        break;
    }
  }

  std::mt19937 random_;
  const std::vector<std::string>& texts_;
};

TEST(MutatedTopologies, SeedsPass) {
  ASSERT_GE(seeds().size(), 8U);
  for (const std::string& text : seeds()) check_topology_text(text);
}

TEST(MutatedTopologies, NeverCrashAReaderOrBreakARoundTrip) {
  const char* given = std::getenv("TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  std::printf("TEST_SEED=%u\n", seed);  // printf: an abort must not lose it
  std::fflush(stdout);
  const std::vector<std::string> texts = seeds();
  Mutator mutator(seed, texts);
  constexpr int kOfEach = 150;
  for (const std::string& text : texts)
    for (int i = 0; i < kOfEach; ++i) check_topology_text(mutator.mutate(text));
}

}  // namespace
}  // namespace twohop::topology
