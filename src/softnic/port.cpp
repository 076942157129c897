// GIDs, link state and the booking of wires.
#include "softnic/port.hpp"

#include <cstring>

#include "softnic/clock.hpp"

namespace softnic {
namespace {

// Link-local: fe80:: and an EUI-64 made of host and device. IPv4: 10.<64 + device>.0.<host + 1>, one subnet per rail.
ibv_gid link_local(PortName port) {
  ibv_gid gid{};
  gid.raw[0] = 0xfe;
  gid.raw[1] = 0x80;
  const uint8_t tail[8] = {
      0x50, 0x0f, 0x70, 0xff, 0xfe, 0x00, static_cast<uint8_t>(port.host), static_cast<uint8_t>(port.device)};
  std::memcpy(gid.raw + 8, tail, sizeof tail);
  return gid;
}

ibv_gid ipv4(PortName port) {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 10;
  gid.raw[13] = static_cast<uint8_t>(64 + port.device);
  gid.raw[15] = static_cast<uint8_t>(port.host + 1);
  return gid;
}

}  // namespace

bool is_v2(GidKind kind) {
  return kind == GidKind::kLinkLocalV2 || kind == GidKind::kIpV2;
}

ibv_gid gid_of(PortName port, GidKind kind) {
  return kind == GidKind::kLinkLocalV1 || kind == GidKind::kLinkLocalV2 ? link_local(port) : ipv4(port);
}

std::optional<PortName> port_with_gid(const ibv_gid& gid) {
  PortName by_ip{static_cast<uint32_t>(gid.raw[15] - 1), static_cast<uint32_t>(gid.raw[13] - 64)};
  PortName by_link{gid.raw[14], gid.raw[15]};
  for (PortName port : {by_ip, by_link}) {
    if (port.host >= kMaxHosts || port.device >= kMaxDevices) continue;
    for (GidKind kind : {GidKind::kIpV2, GidKind::kLinkLocalV2}) {
      ibv_gid own = gid_of(port, kind);
      if (std::memcmp(own.raw, gid.raw, sizeof own.raw) == 0) return port;
    }
  }
  return std::nullopt;
}

bool port_is_up(const SharedPort& port, uint64_t now) {
  int forced = port.forced.load(std::memory_order_acquire);
  if (forced >= 0) return forced == 1;
  bool up = true;
  for (uint32_t i = 0; i < port.change_count; i++)  // in order of time
    if (port.opened_ns + port.changes[i].at_ns <= now) up = port.changes[i].up;
  return up;
}

uint64_t next_port_change(const SharedPort& port, uint64_t now) {
  for (uint32_t i = 0; i < port.change_count; i++)
    if (port.opened_ns + port.changes[i].at_ns > now) return port.opened_ns + port.changes[i].at_ns;
  return kNever;
}

uint64_t reserve(std::atomic<uint64_t>* free_ns, uint64_t earliest, uint64_t duration_ns) {
  uint64_t free_at = free_ns->load(std::memory_order_relaxed);
  uint64_t end = 0;
  do end = std::max(free_at, earliest) + duration_ns;
  while (!free_ns->compare_exchange_weak(free_at, end, std::memory_order_relaxed));
  return end;
}

}  // namespace softnic
