// Which network interface does TWOHOP_SOCKET_IFNAME select?
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/socket.hpp"

namespace twohop {
namespace {

/// "[^][=]name,name,...": prefixes, or whole names after "=", excluded after "^".
struct Filter {
  bool exclude = false, exact = false;
  std::vector<std::string> names;

  bool selects(std::string_view interface) const {
    for (const std::string& name : names)
      if (exact ? interface == name : interface.starts_with(name)) return !exclude;
    return exclude;
  }
};

Filter parse_filter(std::string_view spec) {
  Filter f;
  if (spec.starts_with('^')) f.exclude = true, spec.remove_prefix(1);
  if (spec.starts_with('=')) f.exact = true, spec.remove_prefix(1);
  while (!spec.empty()) {
    const size_t comma = spec.find(',');
    if (comma != 0) f.names.emplace_back(spec.substr(0, comma));
    spec.remove_prefix(comma == spec.npos ? spec.size() : comma + 1);
  }
  return f;
}

struct Interface {
  std::string name;
  unsigned flags = 0;
  std::vector<SocketAddress> addresses;  // IPv4 first
};

/// Empty when it has a usable address: what makes a local address useless to other hosts is named.
std::string unusable_because(const Interface& i) {
  if (!(i.flags & IFF_UP)) return "is down";
  if (i.addresses.empty()) return "has no IPv4 or global IPv6 address";
  return "";
}

void add_address(Interface& to, const sockaddr* a) {
  SocketAddress s;
  if (a->sa_family == AF_INET) {
    s.length = sizeof(sockaddr_in);
  } else if (a->sa_family == AF_INET6) {
    s.length = sizeof(sockaddr_in6);
    // A link-local address needs the scope of the reader's own interface: it means nothing on another host.
    if (IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr)) return;
  } else {
    return;
  }
  std::memcpy(&s.storage, a, s.length);
  to.addresses.insert(a->sa_family == AF_INET ? to.addresses.begin() : to.addresses.end(), s);
}

Result<std::vector<Interface>> list_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return system_error(errno, "cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* a = list; a != nullptr; a = a->ifa_next) {
    Interface* known = nullptr;
    for (Interface& i : found)
      if (i.name == a->ifa_name) known = &i;
    if (known == nullptr) known = &found.emplace_back(Interface{a->ifa_name, a->ifa_flags, {}});
    if (a->ifa_addr != nullptr) add_address(*known, a->ifa_addr);
  }
  return found;
}

/// The first selected and usable one; every other adds a line to `passed_over`.
const Interface* pick(const std::vector<Interface>& all, const Filter& filter, std::string& passed_over) {
  for (const Interface& i : all) {
    std::string why = unusable_because(i);
    if (!filter.selects(i.name)) why = "is not selected";
    if (why.empty()) return &i;
    passed_over += fmt::format("{}{} {}", passed_over.empty() ? "" : ", ", i.name, why);
  }
  return nullptr;
}

}  // namespace

Result<ChosenInterface> choose_interface(const std::string& spec) {
  auto all = list_interfaces();
  if (!all) return all.error();
  std::string passed_over, ignored;
  const Interface* chosen = pick(*all, parse_filter(spec.empty() ? "^lo,docker" : spec), passed_over);
  if (chosen == nullptr && spec.empty()) chosen = pick(*all, parse_filter("=lo"), ignored);
  if (chosen == nullptr)
    return make_error(twohopInvalidArgument,
                      "TWOHOP_SOCKET_IFNAME={} selects no usable interface: {}. Accepted: a comma list of name "
                      "prefixes, '=' before exact names, '^' before names to exclude",
                      spec, passed_over.empty() ? "this host has none" : passed_over);
  return ChosenInterface{chosen->name, chosen->addresses.front()};
}

}  // namespace twohop
