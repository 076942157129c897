// One connection of the control tree: frames out of a byte stream, without ever waiting. What they mean: tree.cpp.
#pragma once

#include <optional>
#include <string>

#include "base/handshake.hpp"
#include "base/result.hpp"

namespace twohop {

enum class FrameType : uint8_t {
  kGather = 1,    // child to parent: the entries of its subtree
  kAll = 2,       // parent to child: the entries of all ranks
  kFailure = 3,   // an error of the communicator
  kGoodbye = 4,   // the rank at the other end has left; it still relays while its process lives
  kAsk = 6,       // where does everybody stand?
  kStanding = 7,  // where one rank stands
  kGivenUp = 8,   // what all wait for outside of exchanges is in vain
  kDone = 5,      // all ranks on the other end's side have left: nothing to relay to them any more
};

struct Frame {
  FrameType type;
  Bytes payload;
};

class TreeLink {
 public:
  TreeLink(Fd fd, int rank, std::string identity);
  ~TreeLink();
  TreeLink(TreeLink&&) noexcept = default;

  int fd() const { return fd_.get(); }
  bool open() const { return static_cast<bool>(fd_); }
  void close();
  int rank() const { return rank_; }
  const std::string& identity() const { return identity_; }

  /// Appends a frame to what is to be sent, and sends what the socket takes at once. A broken connection is left to
  /// next_frame(), since what the peer said last may still be there to read.
  void send(FrameType type, std::span<const std::byte> payload);
  void flush();
  bool pending() const { return open() && sent_ < out_.size(); }

  /// The next whole frame, or nothing yet. Payloads of kGather and kAll hold at most max_data_bytes. Errors: the
  /// connection ended (twohopRemoteError), or the peer does not keep to the protocol.
  Result<std::optional<Frame>> next_frame(size_t max_data_bytes);

  // What the peer has said, and what we have said to it; kept by the tree.
  bool goodbye_received = false, done_received = false, done_sent = false;
  std::optional<Bytes> data;  // a kGather or kAll that was not used yet

 private:
  Result<size_t> receive(std::span<std::byte> into);
  Result<bool> read_header(size_t max_data_bytes);
  static constexpr size_t kHeaderBytes = 8;

  Fd fd_;
  int rank_;
  std::string identity_;
  Bytes out_;
  size_t sent_ = 0;
  std::byte header_[kHeaderBytes] = {};
  size_t header_received_ = 0;
  size_t payload_bytes_ = 0;
  Bytes payload_;
  size_t payload_received_ = 0;
};

}  // namespace twohop
