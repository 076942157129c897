// What the ends of a new data connection tell each other of links, rails, GIDs, keys and queue pairs: both transports.
#include "fuzz/input.hpp"
#include "transport/tcp/tcp_endpoint.hpp"
#include "transport/verbs/verbs_exchange.hpp"
#include "transport/verbs/verbs_reach.hpp"

namespace twohop {
namespace {

void tcp_links(const fuzz::Stream& stream) {
  std::byte inbox[64];
  OutLink out;
  out.id = {0, 1, 0, 1};
  out.inbox_bytes = sizeof inbox;
  InLink in;
  in.id = {0, 2, 1, 0};
  in.inbox = inbox;
  tcp::Pair pair;
  pair.peer = 1;
  pair.out = {&out};
  pair.in = {&in};
  (void)tcp::agree_on_links(pair, stream.ours.get(), fuzz::at_once());
}

std::vector<verbs::RailEnd> ends_of(const verbs::Offer& offer) {
  std::vector<verbs::RailEnd> ends;
  for (const verbs::OfferedRail& rail : offer.rails)
    ends.push_back({rail.row.link_layer == IBV_LINK_LAYER_ETHERNET, rail.gids, rail.row.number, rail.row.own != 0});
  return ends;
}

/// An offer is joined to itself, as two hosts that are alike would.
void verbs_offer(const fuzz::Stream& stream) {
  const auto offer = verbs::receive_offer(stream.ours.get(), fuzz::at_once());
  if (!offer) return;
  (void)verbs::compare_links(offer->links, offer->links);
  const auto ends = ends_of(*offer);
  if (ends.size() > 16) return;  // no host has more; the comparison is of all with all
  for (const verbs::RailPair& pair : verbs::join_rails(ends, ends)) {
    if (pair.lower >= ends.size() || pair.higher >= ends.size()) fuzz::fail("a rail that nobody offered");
    if (ends[pair.lower].ethernet && pair.gids.reach != verbs::Reach::kNone &&
        (pair.gids.lower >= ends[pair.lower].gids.size() || pair.gids.higher >= ends[pair.higher].gids.size()))
      fuzz::fail("a GID that nobody offered");
  }
  for (const verbs::OfferedRail& rail : offer->rails)
    for (const verbs::GidCandidate& gid : rail.gids) (void)verbs::to_string(gid.entry.gid);
}

void verbs_rows(const fuzz::Stream& stream) {
  (void)verbs::receive_rows(stream.ours.get(), 4, fuzz::at_once());
  (void)verbs::receive_ready(stream.ours.get(), fuzz::at_once());
}

/// Of all 32 bits nothing is lost that means something.
void immediate(std::span<const std::byte> bytes) {
  uint32_t bits = 0;
  for (const std::byte b : bytes.first(std::min<size_t>(4, bytes.size())))
    bits = bits << 8 | std::to_integer<uint32_t>(b);
  const verbs::Immediate i = verbs::unpack(bits);
  if (!(verbs::unpack(verbs::pack(i)) == i)) fuzz::fail("an immediate comes back different");
}

}  // namespace
}  // namespace twohop

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  twohop::fuzz::Input input(data, size);
  static constexpr void (*kReaders[])(const twohop::fuzz::Stream&) = {twohop::tcp_links, twohop::verbs_offer,
                                                                      twohop::verbs_rows};
  const size_t which = input.below(std::size(kReaders) + 1);
  if (which == std::size(kReaders)) {
    twohop::immediate(input.rest());
    return 0;
  }
  const twohop::fuzz::Stream stream;
  stream.write(input.rest());
  stream.end();
  kReaders[which](stream);
  return 0;
}
