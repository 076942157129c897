// GIDs, link state and the booking of wires.
#include "softnic/port.hpp"

#include <cstring>

#include "softnic/clock.hpp"

namespace softnic {
namespace {

// Link-local: fe80:: and an EUI-64 made of host and device. Others by subnet: 10.<64 + net>.0.<host + 1>,
// fd00:0:0:<64 + net>::<host + 1>.
ibv_gid link_local(PortName port) {
  ibv_gid gid{};
  gid.raw[0] = 0xfe;
  gid.raw[1] = 0x80;
  const uint8_t tail[8] = {
      0x50, 0x0f, 0x70, 0xff, 0xfe, 0x00, static_cast<uint8_t>(port.host), static_cast<uint8_t>(port.device)};
  std::memcpy(gid.raw + 8, tail, sizeof tail);
  return gid;
}

ibv_gid ipv4(PortName port, uint32_t net) {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 10;
  gid.raw[13] = static_cast<uint8_t>(64 + net);
  gid.raw[15] = static_cast<uint8_t>(port.host + 1);
  return gid;
}

ibv_gid ipv6(PortName port, uint32_t net) {
  ibv_gid gid{};
  gid.raw[0] = 0xfd;
  gid.raw[7] = static_cast<uint8_t>(64 + net);
  gid.raw[15] = static_cast<uint8_t>(port.host + 1);
  return gid;
}

bool equal(const ibv_gid& a, const ibv_gid& b) {
  return std::memcmp(a.raw, b.raw, sizeof a.raw) == 0;
}

}  // namespace

bool is_v2(GidKind kind) {
  return kind == GidKind::kLinkLocalV2 || kind == GidKind::kIpV2 || kind == GidKind::kIpv6V2;
}

ibv_gid gid_of(PortName port, uint32_t net, GidKind kind) {
  switch (kind) {
    case GidKind::kLinkLocalV1:
    case GidKind::kLinkLocalV2:
      return link_local(port);
    case GidKind::kIpV1:
    case GidKind::kIpV2:
      return ipv4(port, net);
    case GidKind::kIpv6V1:
    case GidKind::kIpv6V2:
      return ipv6(port, net);
    case GidKind::kEmpty:
      break;
  }
  return {};
}

uint16_t lid_of(PortName port) {
  return static_cast<uint16_t>(1 + port.host * kMaxDevices + port.device);
}

std::optional<PortName> port_with_gid(const SharedState& state, const ibv_gid& gid) {
  const PortName by_link{gid.raw[14], gid.raw[15]};
  if (by_link.host < kMaxHosts && by_link.device < kMaxDevices && equal(link_local(by_link), gid)) return by_link;
  const auto host = static_cast<uint32_t>(gid.raw[15] - 1);
  if (host >= kMaxHosts) return std::nullopt;
  for (uint32_t device = 0; device < kMaxDevices; device++) {
    const SharedPort& port = state.ports[host][device];
    if (!port.ready.load(std::memory_order_acquire)) continue;
    if (equal(ipv4({host, device}, port.net), gid) || equal(ipv6({host, device}, port.net), gid))
      return PortName{host, device};
  }
  return std::nullopt;
}

std::optional<PortName> port_with_lid(uint16_t lid) {
  if (lid == 0 || lid > kMaxHosts * kMaxDevices) return std::nullopt;
  return PortName{(lid - 1u) / kMaxDevices, (lid - 1u) % kMaxDevices};
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
