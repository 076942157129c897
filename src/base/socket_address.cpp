// What is an address: text, port, loopback or not, and how is a host name resolved to one?
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>

#include "base/socket.hpp"

namespace twohop {
namespace {

const sockaddr_in* as_v4(const SocketAddress& a) {
  return reinterpret_cast<const sockaddr_in*>(&a.storage);
}
const sockaddr_in6* as_v6(const SocketAddress& a) {
  return reinterpret_cast<const sockaddr_in6*>(&a.storage);
}

bool is_v4_loopback(uint32_t network_order) {
  return (ntohl(network_order) >> 24) == 127;
}

}  // namespace

std::string SocketAddress::to_string() const {
  char host[NI_MAXHOST] = "?";
  if (storage.ss_family != AF_INET && storage.ss_family != AF_INET6)
    return fmt::format("(address family {})", storage.ss_family);
  getnameinfo(reinterpret_cast<const sockaddr*>(&storage), length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return storage.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port()) : fmt::format("{}:{}", host, port());
}

bool SocketAddress::is_loopback() const {
  if (storage.ss_family == AF_INET) return is_v4_loopback(as_v4(*this)->sin_addr.s_addr);
  if (storage.ss_family != AF_INET6) return false;
  const in6_addr& a = as_v6(*this)->sin6_addr;
  if (!IN6_IS_ADDR_V4MAPPED(&a)) return IN6_IS_ADDR_LOOPBACK(&a);
  uint32_t v4;
  std::memcpy(&v4, a.s6_addr + 12, sizeof v4);
  return is_v4_loopback(v4);
}

int SocketAddress::port() const {
  if (storage.ss_family == AF_INET) return ntohs(as_v4(*this)->sin_port);
  return storage.ss_family == AF_INET6 ? ntohs(as_v6(*this)->sin6_port) : 0;
}

void SocketAddress::set_port(int port) {
  const auto value = htons(static_cast<uint16_t>(port));
  if (storage.ss_family == AF_INET) reinterpret_cast<sockaddr_in*>(&storage)->sin_port = value;
  if (storage.ss_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = value;
}

Result<SocketAddress> resolve(const std::string& host, int port) {
  if (port < 0 || port > 65535)
    return make_error(twohopInvalidArgument, "port {} of {}: expected 0 to 65535", port, host);
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int rc = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, [](addrinfo* l) {
    if (l) freeaddrinfo(l);
  });
  if (host.empty() || rc != 0 || list == nullptr)
    return make_error(
        twohopInvalidArgument,
        "cannot resolve the host name '{}': {}. Use a name that every rank's host resolves, or an address", host,
        host.empty() ? "it is empty" : gai_strerror(rc));
  const addrinfo* best = list;  // IPv4 when there is one: every rank must end up with the same choice
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next)
    if (a->ai_family == AF_INET && best->ai_family != AF_INET) best = a;
  SocketAddress address;
  std::memcpy(&address.storage, best->ai_addr, best->ai_addrlen);
  address.length = best->ai_addrlen;
  address.set_port(port);
  return address;
}

}  // namespace twohop
