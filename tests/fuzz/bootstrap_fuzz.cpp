// What ranks and the root say to each other before there is a communicator: hellos, answers, unique ids, standings,
// hand-over messages. What is accepted comes back the same when it is written again.
#include <sodium.h>

#include <cstring>

#include "bootstrap/fd_transfer.hpp"
#include "bootstrap/rendezvous_messages.hpp"
#include "bootstrap/standing.hpp"
#include "bootstrap/unique_id.hpp"
#include "fuzz/input.hpp"

namespace twohop {
namespace {

void hello(std::span<const std::byte> bytes) {
  const auto said = decode_hello(bytes);
  if (!said) return;
  const auto again = decode_hello(encode(*said));
  if (!again || again->rank != said->rank || again->identity != said->identity)
    fuzz::fail("a hello comes back different");
}

void answer(std::span<const std::byte> bytes) {
  const fuzz::Stream stream;
  stream.write(bytes);
  stream.end();
  const auto said = receive_answer(stream.ours.get(), fuzz::at_once());
  if (said && said->failure && said->failure->code == twohopSuccess) fuzz::fail("a failure that is none");
}

/// With the right checksum, or nothing beyond it would ever be read.
void unique_id(std::span<const std::byte> bytes) {
  twohopUniqueId id{};
  std::memcpy(id.internal, bytes.data(), std::min(bytes.size(), sizeof id.internal));
  (void)decode(id);
  auto* raw = reinterpret_cast<unsigned char*>(id.internal);
  crypto_generichash(raw + sizeof id - 16, 16, raw, sizeof id - 16, nullptr, 0);
  const auto content = decode(id);
  if (content && !decode(encode(*content))) fuzz::fail("an id that was read is refused when written");
}

void standing(std::span<const std::byte> bytes) {
  const size_t size = encode(0, Standing()).size();
  std::vector<std::optional<Standing>> all(4);
  while (bytes.size() >= size) {
    if (const auto said = decode_standing(bytes.first(size)); said && said->first < 4)
      all[static_cast<size_t>(said->first)] = said->second;
    bytes = bytes.subspan(size);
  }
  (void)decode_standing(bytes);
  if (who_is_late(all, 0, 3).empty()) fuzz::fail("nobody is late");
}

void hand_over(std::span<const std::byte> bytes) {
  const fuzz::Stream stream;
  stream.write(bytes);
  stream.end();
  (void)receive_fds(stream.ours.get());
}

}  // namespace
}  // namespace twohop

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static constexpr void (*kReaders[])(std::span<const std::byte>) = {twohop::hello, twohop::answer, twohop::unique_id,
                                                                     twohop::standing, twohop::hand_over};
  twohop::fuzz::Input input(data, size);
  const auto reader = kReaders[input.below(std::size(kReaders))];
  reader(input.rest());
  return 0;
}
