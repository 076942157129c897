// A data connection of the tcp transport whose peer sends what it likes, between puts and releases of ours. Nothing is
// written outside the inboxes, and counts never go back.
#include <algorithm>
#include <array>
#include <optional>

#include "fuzz/input.hpp"
#include "transport/tcp/tcp_connection.hpp"

namespace twohop::tcp {
namespace {

constexpr size_t kInboxBytes = 256, kGuardBytes = 64;
constexpr std::byte kGuard{0xa5};

struct Place {
  std::array<std::byte, kInboxBytes + 2 * kGuardBytes> memory;
  Place() { memory.fill(kGuard); }
  std::span<std::byte> inbox() { return std::span(memory).subspan(kGuardBytes, kInboxBytes); }
  bool untouched() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(memory.begin(), memory.begin() + kGuardBytes, is_guard) &&
           std::all_of(memory.end() - kGuardBytes, memory.end(), is_guard);
  }
};

struct Scene {
  fuzz::Stream stream;
  Place places[2];
  OutLink out[2];
  InLink in[2];
  EndpointCounters counters;
  std::array<std::byte, 64> source{};
  std::optional<Connection> connection;

  Scene() {
    for (uint16_t i = 0; i < 2; ++i) {
      out[i].id = {0, i, 0, 1};
      out[i].inbox_bytes = kInboxBytes;
      in[i].id = {0, i, 1, 0};
      in[i].inbox = places[i].inbox();
    }
    connection.emplace(std::move(stream.ours), 1, uint16_t{0}, "peer", std::vector<OutLink*>{&out[0], &out[1]},
                       std::vector<InLink*>{&in[0], &in[1]}, &counters);
  }
  /// One thing that this rank may do now.
  void act(uint8_t what) {
    OutLink& o = out[what >> 2 & 1];
    const size_t i = what >> 3 & 1;
    if ((what & 1) && o.posted - o.consumed < kMaxPutsInFlight)
      connection->put(o, {1, 2},
                      std::array<PutRun, 2>{{{source.data(), 0, what % source.size()}, {source.data(), 128, 3}}});
    if ((what & 2) && in[i].released < in[i].arrived) connection->release(i);
    if (what == 0xff) connection->say_goodbye();
  }
  void check(const InLink (&before)[2]) const {
    for (size_t i = 0; i < 2; ++i) {
      if (!places[i].untouched()) fuzz::fail("bytes were written outside of an inbox");
      if (in[i].arrived < before[i].arrived || in[i].arrived - in[i].released > kMaxPutsInFlight)
        fuzz::fail("arrivals that cannot be");
      if (out[i].consumed > out[i].sent || out[i].sent > out[i].posted) fuzz::fail("credits that cannot be");
    }
  }
};

void run(fuzz::Input input) {
  Scene scene;
  bool said_goodbye = false;
  for (int turn = 0; turn < 64 && !input.empty(); ++turn) {
    const InLink before[] = {scene.in[0], scene.in[1]};
    const uint8_t what = input.u8();
    if (!said_goodbye) scene.act(what);
    said_goodbye |= what == 0xff;
    if (!scene.connection->peer_left() && !scene.connection->send()) return;
    scene.stream.write(input.bytes(input.u8()));
    if (input.empty()) scene.stream.end();
    const auto received = scene.connection->receive();
    scene.check(before);
    if (!received) return;
    scene.stream.discard();
  }
}

}  // namespace
}  // namespace twohop::tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  twohop::tcp::run({data, size});
  return 0;
}
