// What three ranks tell each other while they join, cut at newlines: introductions, settings, and what they say of
// their GPUs. What is accepted comes back the same.
#include "collectives/exec/init_messages.hpp"
#include "fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  twohop::fuzz::Input input(data, size);
  std::string_view text = input.text();
  std::vector<twohop::Bytes> by_rank;
  for (int rank = 0; rank < 3; ++rank) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto bytes = std::as_bytes(std::span(line.data(), line.size()));
    by_rank.emplace_back(bytes.begin(), bytes.end());
  }
  const auto values = twohop::read_init_messages(by_rank);
  if (!values) return 0;
  for (size_t rank = 0; rank < values->size(); ++rank) {
    const int r = static_cast<int>(rank);
    (void)twohop::read_text(r, (*values)[rank]);
    (void)twohop::read_count(r, (*values)[rank]);
    if (const auto way = twohop::read_gpudirect(r, (*values)[rank])) {
      const auto same = twohop::read_gpudirect(r, twohop::write_gpudirect(*way));
      if (!same || *same != *way) twohop::fuzz::fail("an answer about GPUDirect comes back different");
    }
    const auto said = twohop::read_introduction(r, (*values)[rank]);
    if (!said) continue;
    const auto again = twohop::read_introduction(0, twohop::write_introduction(*said));
    if (!again || again->address != said->address) twohop::fuzz::fail("an introduction comes back different");
    (void)twohop::compare_settings(1, values->front(), (*values)[rank]);
  }
  return 0;
}
