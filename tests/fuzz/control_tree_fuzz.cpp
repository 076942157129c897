// The control tree: a parent and a child of rank 1 say whatever they like, in turns, during the exchange of the init
// and after it.
#include <poll.h>

#include "bootstrap/tree.hpp"
#include "fuzz/input.hpp"

namespace twohop {
namespace {

constexpr int kRanks = 8;  // rank 1 has the parent 0 and the children 5, 6, 7

struct Family {
  fuzz::Stream streams[4];
  std::unique_ptr<Tree> tree;

  Family() {
    std::vector<TreeLink> links;
    const int ranks[] = {0, 5, 6, 7};
    for (size_t i = 0; i < 4; ++i) links.emplace_back(std::move(streams[i].ours), ranks[i], "other:1");
    tree = std::make_unique<Tree>(1, kRanks, std::move(links));
  }
  void serve() {
    std::vector<pollfd> polled;
    tree->append_to(polled);
    ::poll(polled.data(), polled.size(), 0);
    tree->serve(polled);
    for (const fuzz::Stream& s : streams) s.discard();
  }
};

void run(fuzz::Input input) {
  Family family;
  Tree& tree = *family.tree;
  int failures = 0;
  const bool exchange = input.u8() % 2 == 0;
  if (!exchange) tree.set_handler([&](const Error&) { ++failures; });
  for (int turn = 0; turn < 16 && !input.empty(); ++turn) {
    const uint8_t what = input.u8();
    const fuzz::Stream& from = family.streams[what % 4];
    from.write(input.bytes(input.u8()));
    if (what & 64) from.end();
    if (what & 128) tree.ask();
    if (exchange) {
      const auto all = tree.all_gather(std::as_bytes(std::span("mine", 4)), fuzz::at_once());
      if (all && all->size() != kRanks) fuzz::fail("an exchange without all ranks");
    } else {
      family.serve();
    }
  }
  if (failures > 1) fuzz::fail("a failure was told twice");
  tree.leave();
  family.serve();
  (void)tree.finished();
}

}  // namespace
}  // namespace twohop

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  twohop::run({data, size});
  return 0;
}
