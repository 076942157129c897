// How does the connecting end prove that it holds the secret? The accepting end is in acceptor.cpp.
#include "base/handshake.hpp"

#include <endian.h>
#include <poll.h>

#include <cstring>

#include "base/check.hpp"
#include "base/handshake_wire.hpp"

namespace twohop {
namespace {

void init_sodium() {
  static const int rc = sodium_init();  // also seeds the generator; several calls are fine
  TWOHOP_CHECK(rc >= 0, "sodium_init returned {}", rc);
}

}  // namespace

Secret random_secret() {
  init_sodium();
  Secret s;
  randombytes_buf(s.data(), s.size());
  return s;
}

Secret derive_secret(const std::string& passphrase, const std::string& label) {
  init_sodium();
  // The label's length keeps ("ab", "c") and ("a", "bc") apart.
  const std::string text = fmt::format("twohop secret 1/{}/{}/{}", label.size(), label, passphrase);
  Secret s;
  crypto_generichash(s.data(), s.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr, 0);
  return s;
}

struct Prover::State {
  int fd;
  Secret secret;
  Purpose purpose;
  Bytes hello;
  wire::Opening mine, theirs;
  Bytes out;
  wire::Proof proof{};  // the acceptor's
  size_t sent = 0, received = 0;
  enum class Stage { kOpening, kProof, kDone } stage = Stage::kOpening;

  void queue(const void* data, size_t bytes) {
    const auto* p = static_cast<const std::byte*>(data);
    out.insert(out.end(), p, p + bytes);
  }
  Result<bool> answer_opening();
  Result<bool> check_proof();
};

Result<bool> Prover::State::answer_opening() {
  auto complete = wire::receive_some(fd, std::as_writable_bytes(std::span(&theirs, 1)), received);
  if (!complete || !*complete) return complete;
  if (std::string fault = wire::opening_fault(theirs, wire::Role::kAcceptor, purpose); !fault.empty())
    return make_error(twohopInvalidUsage, "the peer is not the expected twohop process: {}", fault);
  const auto proof_of_mine = wire::prove(secret, wire::Role::kConnector, purpose, mine.nonce, theirs.nonce, hello);
  queue(proof_of_mine.data(), proof_of_mine.size());
  queue(hello.data(), hello.size());
  received = 0;
  stage = Stage::kProof;
  return true;
}

Result<bool> Prover::State::check_proof() {
  auto complete = wire::receive_some(fd, std::as_writable_bytes(std::span(proof)), received);
  if (!complete && complete.error().code == twohopRemoteError) {
    complete.error().message += ": it refused this process, which holds another secret or another unique id";
    complete.error().sys_errno = EKEYREJECTED;
  }
  if (!complete || !*complete) return complete;
  if (!wire::same_proof(proof, wire::prove(secret, wire::Role::kAcceptor, purpose, mine.nonce, theirs.nonce, hello)))
    return make_error(twohopInvalidUsage, "the peer does not hold this communicator's secret");
  stage = Stage::kDone;
  return true;
}

Prover::Prover(int fd, const Secret& secret, Purpose purpose, std::span<const std::byte> hello)
    : state_(new State{fd,
                       secret,
                       purpose,
                       Bytes(hello.begin(), hello.end()),
                       wire::make_opening(wire::Role::kConnector, purpose, hello.size()),
                       {},
                       {}}) {
  TWOHOP_CHECK(hello.size() <= kMaxHelloBytes, "a hello of {} bytes", hello.size());
  state_->queue(&state_->mine, sizeof state_->mine);
}

Prover::~Prover() = default;
Prover::Prover(Prover&&) noexcept = default;
Prover& Prover::operator=(Prover&&) noexcept = default;

Result<bool> Prover::step() {
  State& s = *state_;
  if (s.stage == State::Stage::kOpening) {
    if (auto sent = wire::send_some(s.fd, s.out, s.sent); !sent || !*sent) return sent;
    if (auto answered = s.answer_opening(); !answered || !*answered) return answered;
  }
  if (s.stage == State::Stage::kProof) {
    if (auto sent = wire::send_some(s.fd, s.out, s.sent); !sent || !*sent) return sent;
    return s.check_proof();
  }
  return true;
}

short Prover::wants() const {
  return state_->sent < state_->out.size() ? POLLOUT : POLLIN;
}

Result<> handshake(int fd, const Secret& secret, Purpose purpose, std::span<const std::byte> hello, Deadline deadline) {
  Prover prover(fd, secret, purpose, hello);
  for (;;) {
    auto done = prover.step();
    if (!done) return done.error();
    if (*done) return {};
    if (auto ready = wait_for_fd(fd, prover.wants(), deadline); !ready) {
      if (ready.error().code == twohopTimeout)
        ready.error().message = "the peer did not finish the handshake before the deadline";
      return ready;
    }
  }
}

}  // namespace twohop
