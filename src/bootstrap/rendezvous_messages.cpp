// See rendezvous_messages.hpp.
#include "bootstrap/rendezvous_messages.hpp"

namespace twohop {
namespace {

SocketAddress any_address() {
  SocketAddress a;
  a.storage.ss_family = AF_INET;
  return a;
}

}  // namespace

Bytes encode(const RankHello& hello) {
  Writer w;
  w.u8(kBootstrapVersion);
  w.i32(hello.rank);
  w.i32(hello.nranks);
  w.u32(hello.patience_ms);
  w.address(hello.listener);
  w.text(hello.identity, kMaxIdentityBytes);
  return w.take();
}

Result<RankHello> decode_hello(std::span<const std::byte> data) {
  Reader r(data);
  if (const int version = r.u8(); version != kBootstrapVersion)
    return make_error(twohopInvalidUsage,
                      "a rank speaks version {} of the bootstrap protocol, the root version {}: use "
                      "one twohop version in all ranks",
                      version, kBootstrapVersion);
  RankHello h;
  h.rank = r.i32();
  h.nranks = r.i32();
  h.patience_ms = r.u32();
  h.listener = r.address();
  h.identity = r.text(kMaxIdentityBytes);
  if (!r.complete()) return make_error(twohopInternalError, "a rank sent a malformed hello of {} bytes", data.size());
  if (h.nranks < 1 || h.nranks > kMaxRanks || h.rank < 0 || h.rank >= h.nranks)
    return make_error(twohopInvalidUsage, "{} says that it is rank {} of {}", h.identity, h.rank, h.nranks);
  return h;
}

void write_error(Writer& to, const Error& error) {
  to.i32(static_cast<int32_t>(error.code));
  to.i32(error.rank);
  to.text(error.message, kMaxMessageBytes);
}

Error read_error(Reader& from) {
  Error e;
  const int32_t code = from.i32();
  e.code = code > twohopSuccess && code <= twohopAborted ? static_cast<twohopResult_t>(code) : twohopInternalError;
  e.rank = from.i32();
  e.message = from.text(kMaxMessageBytes);
  e.scope = Scope::kCommunicator;
  return e;
}

Bytes encode(const RootAnswer& answer) {
  Writer w;
  w.u8(kBootstrapVersion);
  w.u8(answer.failure ? 1 : 0);
  if (answer.failure) {
    write_error(w, *answer.failure);
  } else {
    w.address(answer.parent.length == 0 ? any_address() : answer.parent);
    w.text(answer.parent_identity, kMaxIdentityBytes);
  }
  Writer framed;
  framed.u32(static_cast<uint32_t>(w.bytes().size()));
  framed.raw(w.bytes());
  return framed.take();
}

Result<RootAnswer> receive_answer(int fd, Deadline deadline) {
  std::byte length_bytes[4];
  if (auto got = receive_all(fd, length_bytes, deadline); !got) return got.error();
  const uint32_t length = Reader(length_bytes).u32();
  if (length > kMaxAnswerBytes)
    return make_error(twohopInternalError, "the root announced an answer of {} bytes", length);
  Bytes data(length);
  if (auto got = receive_all(fd, data, deadline); !got) return got.error();
  Reader r(data);
  RootAnswer answer;
  if (r.u8() != kBootstrapVersion) return make_error(twohopInvalidUsage, "the root runs another version of twohop");
  if (r.u8() != 0) {
    answer.failure = read_error(r);
  } else {
    answer.parent = r.address();
    answer.parent_identity = r.text(kMaxIdentityBytes);
  }
  if (!r.complete()) return make_error(twohopInternalError, "the root sent a malformed answer of {} bytes", length);
  return answer;
}

}  // namespace twohop
