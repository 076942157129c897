// How do the two ends of a measurement talk beside the queue pairs? JSON messages over a stream socket, with deadlines;
// an end that fails says why, one that vanishes is noticed.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/socket.hpp"

namespace twohop::verbs_perf {

class ControlLink {
 public:
  /// `peer` names the other end in messages: "server 10.0.0.2:18515".
  ControlLink(Fd fd, std::string peer);

  Result<> send(const nlohmann::json& message, Deadline deadline);
  /// Waits. A message {"error": text} of the other end becomes an Error.
  Result<nlohmann::json> receive(Deadline deadline);
  /// What is there already; does not block.
  Result<std::optional<nlohmann::json>> try_receive();
  /// An error if the other end has closed and nothing of it is left to read.
  Result<> check_open();
  /// Sends ours, then waits for theirs: both ends are here when it returns.
  Result<nlohmann::json> exchange(const nlohmann::json& mine, Deadline deadline);
  /// Tells the other end why this one gives up; best effort.
  void tell(const Error& error);

  int fd() const { return fd_.get(); }
  const std::string& peer() const { return peer_; }

 private:
  Result<std::optional<nlohmann::json>> take_message();
  Error closed(int sys_errno) const;
  Fd fd_;
  std::string peer_, input_;
};

Deadline after(double seconds);

}  // namespace twohop::verbs_perf
