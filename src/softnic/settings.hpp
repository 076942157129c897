// What did the user ask of the emulated network? The parsed form of the variable SOFTNIC (docs/softnic.md has its
// words).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace softnic {

constexpr unsigned kMaxDevices = 8;
constexpr unsigned kMaxHosts = 64;
constexpr unsigned kMaxGids = 8;

enum class GidKind : uint8_t { kLinkLocalV1, kLinkLocalV2, kIpV1, kIpV2, kIpv6V1, kIpv6V2, kEmpty };

struct PortChange {
  unsigned device;
  bool up;
  uint64_t at_ns;  // after the port was first opened
};

enum class FaultPoint : uint8_t { kAny, kWrite, kSend, kRead, kAtomic };

constexpr uint32_t kFaultDone = 1u << 31;  // beside a status: Fault::done

struct Fault {
  unsigned device;
  FaultPoint point;
  uint64_t nth;  // counted from 1, per process and device
  ibv_wc_status status;
  bool done = false;  // carried out at the peer all the same: only the acknowledgement is lost
};

// The nth write with bytes of this process and device, counted from 1, arrives with one bit turned over.
struct Corruption {
  unsigned device;
  uint64_t nth;
};

// Of the receives that this process posts on a device, the nth and all after it are lost.
struct Starvation {
  unsigned device;
  uint64_t nth;
};

// A function that fails when it is called for the nth time by this process, counted from 1.
enum class Refusal : uint8_t { kOpenDevice, kCompChannel, kCreateCq, kCreateQp, kToInit, kToRtr, kToRts, kRegMr };
constexpr size_t kRefusals = 8;

struct Refused {
  Refusal what;
  uint64_t nth;
  int error;  // errno
};

struct Settings {
  unsigned devices = 2;
  unsigned host = 0;
  double bits_per_s = 0;  // 0: as fast as memory
  uint64_t latency_ns = 0;
  uint64_t doorbell_ns = 0;
  double loss = 0;  // probability per packet
  uint64_t seed = 1;
  int mtu_bytes = 4096;
  uint64_t memlock_bytes = 0;  // 0: no limit
  std::string domain = "default";
  std::vector<GidKind> gids = {GidKind::kLinkLocalV1, GidKind::kLinkLocalV2, GidKind::kIpV1, GidKind::kIpV2};
  std::vector<bool> infiniband = {false};  // by device; the last one also of those after it
  std::vector<unsigned> nets;              // by device: the subnet it lies in; empty: device d lies in d
  bool route = true;                       // between subnets
  std::vector<PortChange> port_changes;
  std::vector<Fault> faults;
  std::vector<Corruption> corruptions;
  std::vector<Starvation> starvations;
  std::vector<Refused> refusals;

  bool is_infiniband(unsigned device) const {
    return infiniband[device < infiniband.size() ? device : infiniband.size() - 1];
  }
  unsigned net_of(unsigned device) const { return device < nets.size() ? nets[device] : device; }
};

// nullopt: *error says which word is wrong, what is accepted.
std::optional<Settings> parse_settings(std::string_view text, std::string* error);

// The same for the process's own variable.
std::optional<Settings> settings_from_environment(std::string* error);

}  // namespace softnic
