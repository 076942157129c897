// How does a rank introduce itself to the root? The root's side is in root_service.cpp.
#include "bootstrap/rendezvous.hpp"

#include <algorithm>
#include <optional>
#include <thread>

#include "bootstrap/rendezvous_messages.hpp"

namespace twohop {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How long the root may take: a little less than we wait, so that its answer, who is missing, still gets here.
uint32_t patience_ms(Deadline deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  const auto reserve = std::clamp(left / 10, milliseconds(20), milliseconds(1000));
  return static_cast<uint32_t>(std::clamp<int64_t>((left - reserve).count(), 1, 86'400'000));
}

Result<Fd> open_listener(const SocketAddress& root, const std::string& ifname, Deadline deadline) {
  if (!ifname.empty()) {
    auto chosen = choose_interface(ifname);
    if (!chosen) return chosen.error();
    return listen_on(chosen->address);
  }
  // The address from which this host reaches the root is one that the other ranks can reach, too.
  auto probe = connect_to(root, deadline);
  if (!probe) return probe.error();
  auto address = local_address(probe->get());
  if (!address) return address.error();
  address->set_port(0);
  return listen_on(*address);
}

/// What the user can do about a refused proof.
std::string another_secret(bool by_environment) {
  if (!by_environment)
    return "the root refused this rank's proof: the unique id is not the one whose root listens there; pass all ranks "
           "the same twohopUniqueId";
  return "the root refused this rank's proof: TWOHOP_JOB_SECRET differs from rank 0's, or rank 0 is still at an "
         "earlier "
         "communicator; set the same secret on all ranks, and create communicators in the same order on each";
}

Error explain(Error e, const SocketAddress& root) {
  e.message = fmt::format("cannot join the communicator at {}: {}", root.to_string(), e.message);
  return e;
}

}  // namespace

Result<Fd> connect_proved(const SocketAddress& address, const Secret& secret, Purpose purpose,
                          std::span<const std::byte> hello, int tries, Deadline deadline) {
  milliseconds pause{10};
  std::optional<Error> refusal;  // says more than the failure to connect once the other end has given up
  for (int i = 1;; i++) {
    auto fd = connect_to(address, deadline);
    if (!fd) return refusal.value_or(fd.error());
    auto proved = handshake(fd->get(), secret, purpose, hello, deadline);
    if (proved) return fd;
    if (refused_proof(proved.error())) refusal = proved.error();
    if (proved.error().code != twohopRemoteError || i == tries || Clock::now() + pause >= deadline)
      return refusal.value_or(proved.error());
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, milliseconds(500));
  }
}

Result<Introduction> introduce(const UniqueIdContent& id, int rank, int nranks, const std::string& ifname,
                               Deadline deadline) {
  Introduction in;
  auto listener = open_listener(id.root, ifname, deadline);
  if (!listener) return explain(listener.error(), id.root);
  in.listener = std::move(*listener);
  auto mine = local_address(in.listener.get());
  if (!mine) return mine.error();
  const Bytes hello = encode(RankHello{rank, nranks, patience_ms(deadline), *mine, process_identity()});
  // On a shared port the root of the communicator before may still answer, and must refuse us.
  auto root = connect_proved(id.root, id.secret, Purpose::kRendezvous, hello, id.shared_port ? 0 : 5, deadline);
  if (!root) {
    if (refused_proof(root.error())) root.error().message = another_secret(id.shared_port);
    return explain(root.error(), id.root);
  }
  auto answer = receive_answer(root->get(), deadline);
  if (!answer) {
    if (answer.error().code == twohopRemoteError)
      answer.error().message = "the process that made the unique id ended, or gave up waiting";
    return explain(answer.error(), id.root);
  }
  if (answer->failure) return *answer->failure;
  in.parent = answer->parent;
  in.parent_identity = answer->parent_identity;
  return Result<Introduction>(std::move(in));
}

}  // namespace twohop
