// A verbs endpoint whose peer says what it likes, in immediates and in messages about rails, between puts and polls of
// ours, and while a real peer answers or does not. Nothing is written outside of the inboxes, counts never go back, and
// whatever the peer breaks ends in an error. On the emulated device.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "fuzz/input.hpp"
#include "transport/verbs/verbs_endpoint.hpp"

namespace twohop::verbs {

/// A friend of the endpoint.
struct EndpointAccess {
  static int socket(VerbsEndpoint& e) { return e.peers_.front().socket.get(); }
  static uint32_t epoch(VerbsEndpoint& e, size_t path) { return e.peers_.front().states[path].epoch; }
  static size_t paths(VerbsEndpoint& e) { return e.peers_.front().paths.size(); }
  /// As if this immediate had come.
  static bool receive(VerbsEndpoint& e, size_t qp, uint32_t immediate) {
    auto r = e.receive(e.qps_[qp % e.qps_.size()], immediate);
    if (!r) e.die(r.error());
    return static_cast<bool>(r);
  }
};

namespace {

constexpr size_t kLinks = 2, kInbox = 256, kGuard = 64;
constexpr std::byte kUntouched{0xa5};

struct End {
  std::array<std::byte, kLinks*(kInbox + kGuard) + kGuard> memory;
  std::array<std::byte, kInbox> source{};
  std::unique_ptr<VerbsEndpoint> endpoint;

  End(int rank, const Secret& secret) {
    memory.fill(kUntouched);
    VerbsConfig config;
    config.name = "softnic";
    config.library = *find_softnic();
    config.tuning.timeout = 8;
    auto made = make_verbs_endpoint(rank, "lo", secret, config);
    if (!made) fuzz::fail("no endpoint", made.error().message);
    endpoint.reset(dynamic_cast<VerbsEndpoint*>(made->release()));
  }
  std::span<std::byte> inbox(size_t i) { return std::span(memory).subspan(kGuard + i * (kInbox + kGuard), kInbox); }
  void connect(int rank, std::span<const Bytes> addresses) {
    std::vector<OutLink> out;
    std::vector<InLink> in;
    for (uint16_t c = 0; c < kLinks; ++c) {
      out.push_back({.id = {c, 0, rank, 1 - rank}, .inbox_bytes = kInbox, .max_in_flight = 4});
      in.push_back({.id = {c, 0, 1 - rank, rank}, .inbox = inbox(c), .max_in_flight = 4, .tags = {}});
    }
    const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(8);
    auto r = endpoint->register_memory(source);
    if (r) r = endpoint->connect(std::move(out), std::move(in), addresses, deadline, -1);
    if (!r) fuzz::fail("not connected", r.error().message);
  }
  void check(const std::array<InLink, kLinks>& before) {
    for (size_t i = 0; i <= kLinks; ++i)
      for (const std::byte b : std::span(memory).subspan(i * (kInbox + kGuard), kGuard))
        if (b != kUntouched) fuzz::fail("bytes were written outside of an inbox");
    for (size_t i = 0; i < kLinks; ++i) {
      const InLink& in = endpoint->in(i);
      const OutLink& out = endpoint->out(i);
      if (in.arrived < before[i].arrived || in.arrived - in.released > in.max_in_flight)
        fuzz::fail("arrivals that cannot be");
      if (out.consumed > out.sent || out.sent > out.posted) fuzz::fail("counts that cannot be");
    }
  }
};

class Scene {
 public:
  Scene(fuzz::Input& input, size_t ours) : input_(input), ours_(ours) {
    const std::array<Bytes, 2> addresses{ends_[0].endpoint->address(), ends_[1].endpoint->address()};
    std::thread other([&] { ends_[1].connect(1, addresses); });
    ends_[0].connect(0, addresses);
    other.join();
  }

  void run() {
    VerbsEndpoint& e = *ends_[ours_].endpoint;
    for (bool alive = true; alive && !input_.empty();) {
      const std::array<InLink, kLinks> before{e.in(0), e.in(1)};
      alive = step(e);
      if (alive) alive = static_cast<bool>(e.flush());
      if (alive) alive = static_cast<bool>(e.poll());
      ends_[ours_].check(before);
    }
  }

 private:
  bool step(VerbsEndpoint& e) {
    switch (input_.below(7)) {
      case 0:
        return EndpointAccess::receive(e, input_.u8(), number());
      case 1:
        say(static_cast<ControlKind>(input_.u8()), input_.bytes(input_.u8()));
        break;
      case 2:
        say_in_form();
        break;
      case 3:
        if (OutLink& l = e.out(input_.below(kLinks)); l.posted - l.consumed < l.max_in_flight) {
          const PutRun run{ends_[ours_].source.data(), input_.below(64), input_.below(128)};
          e.put(l.id.channel, {1, 2}, {&run, 1});
        }
        break;
      case 4:
        if (InLink& l = e.in(input_.below(kLinks)); l.released < l.arrived) e.release(l.id.channel);
        break;
      case 5: {  // what a sleeper would do
        std::vector<pollfd> fds;
        e.wait_for(fds);
        break;
      }
      default: {  // the real peer, which may die of what it hears
        VerbsEndpoint& peer = *ends_[1 - ours_].endpoint;
        std::vector<pollfd> fds;
        if (peer.poll()) peer.wait_for(fds);
      }
    }
    return true;
  }
  uint32_t number() {
    uint32_t n = 0;
    for (int i = 0; i < 4; ++i) n = n << 8 | input_.u8();
    return n;
  }
  /// In the peer's name, over its socket.
  void say(ControlKind kind, std::span<const std::byte> payload) {
    ControlMessage m{kWireVersion, static_cast<uint8_t>(kind), {}, htole32(static_cast<uint32_t>(payload.size())), 0};
    if (kind == ControlKind::kGoodbye) m.immediates = htole64(input_.u8());
    const int fd = EndpointAccess::socket(*ends_[1 - ours_].endpoint);
    (void)!::send(fd, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)!::send(fd, payload.data(), payload.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  /// Messages of the right shape, about paths that there are and mostly of their epoch.
  void say_in_form() {
    VerbsEndpoint& e = *ends_[ours_].endpoint;
    const size_t path = input_.below(EndpointAccess::paths(e) + 1);
    const uint32_t known = path < EndpointAccess::paths(e) ? EndpointAccess::epoch(e, path) : 0;
    const PathEpoch at{static_cast<uint32_t>(path), known + static_cast<uint32_t>(input_.below(3))};
    ConnectMessage connect{at, input_.u8() % 3u, input_.u8() % 3u, {}};
    connect.rows.resize(input_.below(3), QpRow{number(), number() & 0xffffff});
    switch (input_.below(9)) {
      case 0:
        return say(ControlKind::kDown, encode(DownMessage{at, input_.below(2) != 0, "why"}));
      case 1:
        return say(ControlKind::kHeld, encode(held(at)));
      case 2:
        return say(ControlKind::kConnect, encode(connect));
      case 3:
        return say(ControlKind::kAccept, encode(connect));
      case 4:
        return say(ControlKind::kRefuse, encode(DownMessage{at, false, "cannot"}));
      case 5:
        return say(ControlKind::kGo, encode(at));
      case 6:
        return say(ControlKind::kRails, encode_rails(input_.u8()));
      case 7:
        return say(ControlKind::kProbe, encode(connect));
      default:
        return say(ControlKind::kProbeReply, encode(connect));
    }
  }
  HeldMessage held(const PathEpoch& at) {
    HeldMessage m{at, input_.u8(), {}, {}};
    for (uint32_t i = 0; i < kLinks; ++i) {
      m.in.push_back({i, input_.below(4), {}});
      for (size_t n = input_.below(3); n > 0; --n) m.in.back().slots.push_back({input_.u8(), {number(), 0}});
      m.out.push_back({i, input_.below(4)});
    }
    return m;
  }

  const Secret secret_ = random_secret();
  std::array<End, 2> ends_{End(0, secret_), End(1, secret_)};
  fuzz::Input& input_;
  size_t ours_;
};

}  // namespace
}  // namespace twohop::verbs

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet =
      ::setenv("TWOHOP_DEBUG", "NONE", 1) == 0 &&
      ::setenv("SOFTNIC", ("devices=2,domain=fuzz-" + std::to_string(::getpid())).c_str(), 1) == 0;
  if (!quiet) return 0;
  twohop::fuzz::Input input(data, size);
  const size_t ours = input.below(2);
  twohop::verbs::Scene(input, ours).run();
  return 0;
}
