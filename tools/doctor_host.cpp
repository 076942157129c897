// Does the host let the library work? Limits, shared memory, GPUDirect, PCI access control, a packet filter.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <fstream>

#include "doctor.hpp"

namespace twohop::cli {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMi = 1 << 20;
constexpr uint64_t kMemlockWanted = 256 * kMi;  // windows of a few communicators on several rails
constexpr uint64_t kFilesWanted = 4096;         // connections, queues and channels of ranks that share a process

/// The soft limit of a line of /proc/self/limits; the largest number for "unlimited".
std::optional<uint64_t> soft_limit(std::istream& limits, std::string_view name) {
  for (std::string line; std::getline(limits, line);) {
    if (!line.starts_with(name)) continue;
    const size_t at = line.find_first_not_of(' ', name.size());
    if (at == std::string::npos) return std::nullopt;
    if (line.compare(at, 9, "unlimited") == 0) return UINT64_MAX;
    uint64_t value = 0;
    if (std::from_chars(line.data() + at, line.data() + line.size(), value).ec != std::errc()) return std::nullopt;
    return value;
  }
  return std::nullopt;
}

std::string in_words(uint64_t bytes) {
  return bytes == UINT64_MAX ? "unlimited" : fmt::format("{} KiB", bytes / 1024);
}

/// Source validation, request and completion redirect of PCI Express's access control, where it is switched on.
bool redirects(const std::string& config) {
  const auto word = [&](size_t at) {
    uint32_t v = 0;
    if (at + sizeof v <= config.size()) std::memcpy(&v, config.data() + at, sizeof v);
    return v;
  };
  constexpr uint32_t kAcs = 0x000d;
  for (size_t at = 0x100, seen = 0; at >= 0x100 && at + 8 <= config.size() && seen < 64; ++seen) {
    const uint32_t header = word(at);
    if ((header & 0xffff) == kAcs) return (word(at + 4) >> 16 & 0b11101) != 0;
    at = header >> 20;
  }
  return false;
}

}  // namespace

void Doctor::limits() {
  const auto limit = [&](const char* name) {
    std::ifstream file(root_ / "proc/self/limits");
    return soft_limit(file, name);
  };
  const auto memlock = limit("Max locked memory"), files = limit("Max open files");
  if (memlock && *memlock >= kMemlockWanted)
    add(Level::kOk, "memlock", in_words(*memlock));
  else if (memlock)
    add(has_devices() ? Level::kError : Level::kInfo, "memlock", in_words(*memlock),
        "an RDMA device can register no more memory than this: ibv_reg_mr fails with ENOMEM",
        "`ulimit -l unlimited`; for services LimitMEMLOCK=infinity, for containers --ulimit memlock=-1, for logins "
        "/etc/security/limits.conf");
  if (files && *files >= kFilesWanted)
    add(Level::kOk, "open files", *files == UINT64_MAX ? "unlimited" : fmt::format("{}", *files));
  else if (files)
    add(*files < 256 ? Level::kError : Level::kWarning, "open files", fmt::format("{}", *files),
        "connections and queues need descriptors: large jobs, or many ranks in a process, may not come up",
        fmt::format("`ulimit -n {}`, or LimitNOFILE={}", kFilesWanted * 4, kFilesWanted * 4));
}

void Doctor::memory() {
  if (!live_) return;
  const int fd = ::memfd_create("twohop-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const bool usable = fd >= 0 && ::ftruncate(fd, 1 << 20) == 0;
  const std::string why = usable ? "" : std::strerror(errno);
  if (fd >= 0) ::close(fd);
  if (usable)
    add(Level::kOk, "memfd", "works; /dev/shm is not used");
  else
    add(Level::kError, "memfd", why, "ranks of one host cannot share memory", "allow memfd_create (seccomp profile)");
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) == 0 && uint64_t{shm.f_blocks} * shm.f_frsize < 256 * kMi)
    add(Level::kInfo, "/dev/shm", in_words(uint64_t{shm.f_blocks} * shm.f_frsize),
        "twohop does not mind; MPI, NCCL and softnic may", "for containers --shm-size=8g");
}

void Doctor::gpu_direct() {
  if (names_in("proc/driver/nvidia/gpus").empty()) return;
  bool peer_memory = false;
  std::ifstream modules(root_ / "proc/modules");
  for (std::string line; std::getline(modules, line);)
    peer_memory |= line.starts_with("nvidia_peermem ") || line.starts_with("nv_peer_mem ");
  std::ifstream version(root_ / "proc/driver/nvidia/version");
  const std::string driver{std::istreambuf_iterator<char>(version), {}};
  const bool open = driver.find("Open Kernel Module") != std::string::npos;
  if (peer_memory)
    add(Level::kOk, "GPUDirect RDMA", "nvidia_peermem is loaded");
  else if (open)
    add(Level::kOk, "GPUDirect RDMA", "the driver's open module exports dma-buf");
  else
    add(Level::kWarning, "GPUDirect RDMA", "neither nvidia_peermem nor a driver with dma-buf",
        "data of GPUs goes through host memory", "modprobe nvidia_peermem, or install the open kernel module");
}

void Doctor::access_control() {
  std::vector<std::string> on;
  size_t bridges = 0, unreadable = 0;
  for (const std::string& name : names_in("sys/bus/pci/devices")) {
    const fs::path folder = fs::path("sys/bus/pci/devices") / name;
    if (!line_of(folder / "class").value_or("").starts_with("0x0604")) continue;
    ++bridges;
    std::ifstream file(root_ / folder / "config", std::ios::binary);
    const std::string config{std::istreambuf_iterator<char>(file), {}};
    if (config.size() <= 256)
      ++unreadable;
    else if (redirects(config))
      on.push_back(name);
  }
  if (bridges == 0) return;
  if (!on.empty())
    return add(
        Level::kWarning, "PCIe ACS", fmt::format("redirects at {}", fmt::join(on, ", ")),
        "traffic between GPU and adapter goes up to the root complex instead of through their switch: slow, and "
        "broken under some IOMMUs",
        "on a host that is no hypervisor switch it off in firmware, or by setpci ECAP_ACS+6.w=0 on these bridges");
  if (unreadable == bridges)
    return add(Level::kInfo, "PCIe ACS", "cannot be read", "", "run `twohop doctor` as root to see it");
  add(Level::kOk, "PCIe ACS", fmt::format("no redirects at {} bridges", bridges - unreadable));
}

void Doctor::packet_filter() {
  std::vector<std::string> tables;
  for (const char* file : {"proc/net/ip_tables_names", "proc/net/ip6_tables_names"})
    if (const auto first = line_of(file); first && !first->empty()) tables.push_back(*first);
  bool nft = false;
  std::ifstream modules(root_ / "proc/modules");
  for (std::string line; std::getline(modules, line);) nft |= line.starts_with("nf_tables ");
  if (tables.empty() && !nft) return add(Level::kOk, "packet filter", "none is loaded");
  add(Level::kInfo, "packet filter", nft ? "nftables is loaded" : "iptables has tables",
      "ranks connect to each other on ports that the kernel chooses, and to the rendezvous; RoCE v2 is UDP port 4791",
      "let the hosts of a job reach each other on all TCP ports of TWOHOP_SOCKET_IFNAME's network");
}

}  // namespace twohop::cli
