// What tells this host, or container, from others?
#include <unistd.h>

#include <array>
#include <fstream>

#include "bootstrap/local_exchange.hpp"

namespace twohop {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.data();
}

/// Tells apart two hosts with one name.
std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id.empty() ? "?" : id;
}

/// "pid:[4026531836]"; "pid:?" without a usable /proc.
std::string namespace_id(const char* kind) {
  std::array<char, 64> target{};
  const std::string path = std::string("/proc/self/ns/") + kind;
  const ssize_t n = readlink(path.c_str(), target.data(), target.size() - 1);
  return n > 0 ? std::string(target.data(), static_cast<size_t>(n)) : std::string(kind) + ":?";
}

}  // namespace

std::string host_identity(const std::string& override_id) {
  if (!override_id.empty()) return override_id;
  std::string id = host_name() + "/" + boot_id();
  for (const char* kind : {"pid", "ipc", "net", "user"}) id += "/" + namespace_id(kind);
  return id;
}

}  // namespace twohop
