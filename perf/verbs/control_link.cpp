// See control_link.hpp. A message is its length (4 bytes, little-endian) and a JSON text.
#include "control_link.hpp"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/bounded_json.hpp"

namespace twohop::verbs_perf {
namespace {

constexpr size_t kMaxMessageBytes = 1 << 20;
using nlohmann::json;

std::string frame(const json& message) {
  // What a message quotes (a device's name, say) need not be UTF-8.
  const std::string text = message.dump(-1, ' ', false, json::error_handler_t::replace);
  const auto length = htole32(static_cast<uint32_t>(text.size()));
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

}  // namespace

ControlLink::ControlLink(Fd fd, std::string peer) : fd_(std::move(fd)), peer_(std::move(peer)) {
  ::fcntl(fd_.get(), F_SETFL, ::fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
}

Result<> ControlLink::send(const json& message, Deadline deadline) {
  const std::string bytes = frame(message);
  auto sent = send_all(fd_.get(), std::as_bytes(std::span(bytes)), deadline);
  if (sent) return sent;
  // An end that closed has perhaps said why.
  if (auto last = receive(after(1)); !last && sent.error().code == twohopRemoteError) return last.error();
  return make_error(sent.error().code, "{}: {}", peer_, sent.error().message);
}

Result<std::optional<json>> ControlLink::take_message() {
  uint32_t length = 0;
  if (input_.size() < sizeof length) return std::optional<json>();
  std::memcpy(&length, input_.data(), sizeof length);
  length = le32toh(length);
  if (length > kMaxMessageBytes)
    return make_error(twohopRemoteError, "{} does not speak verbs_perf's protocol (a message of {} bytes)", peer_,
                      length);
  if (input_.size() < sizeof length + length) return std::optional<json>();
  json message = parse_bounded_json<json>(std::string_view(input_).substr(sizeof length, length));
  input_.erase(0, sizeof length + length);
  if (!message.is_object())
    return make_error(twohopRemoteError, "{} does not speak verbs_perf's protocol (not a JSON object)", peer_);
  if (const auto error = message.find("error"); error != message.end())
    return make_error(twohopRemoteError, "{}: {}", peer_, error->is_string() ? error->get<std::string>() : "failed");
  return std::optional<json>(std::move(message));
}

Result<std::optional<json>> ControlLink::try_receive() {
  for (;;) {
    auto message = take_message();
    if (!message || *message) return message;
    char buffer[4096];
    const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) {
      input_.append(buffer, static_cast<size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::optional<json>();
    return closed(n < 0 ? errno : 0);
  }
}

Error ControlLink::closed(int sys_errno) const {
  Error e =
      make_error(twohopRemoteError, "{} has closed its connection: it ended or was killed; look at its output", peer_);
  if (sys_errno != 0) e.message += fmt::format(" ({})", std::strerror(sys_errno));
  return e;
}

Result<> ControlLink::check_open() {
  char byte = 0;
  const ssize_t n = ::recv(fd_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  if (n == 0) return closed(0);
  if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return closed(errno);
  return {};
}

Result<json> ControlLink::receive(Deadline deadline) {
  for (;;) {
    auto message = try_receive();
    if (!message) return message.error();
    if (*message) return std::move(**message);
    if (auto ready = wait_for_fd(fd_.get(), POLLIN, deadline); !ready)
      return make_error(ready.error().code, "{} does not answer: {}", peer_, ready.error().message);
  }
}

Result<json> ControlLink::exchange(const json& mine, Deadline deadline) {
  if (auto sent = send(mine, deadline); !sent) return sent.error();
  return receive(deadline);
}

void ControlLink::tell(const Error& error) {
  const std::string bytes = frame({{"error", error.message}});
  (void)send_all(fd_.get(), std::as_bytes(std::span(bytes)), after(1));
}

Deadline after(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace twohop::verbs_perf
