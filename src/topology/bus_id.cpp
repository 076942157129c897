// Bus ids as text: [domain:]bus:device.function, all hexadecimal.
#include "topology/bus_id.hpp"

#include <fmt/format.h>

#include <charconv>

namespace twohop::topology {
namespace {

/// All of `text` as a hexadecimal number of at most `digits` digits.
std::optional<uint32_t> hex(std::string_view text, size_t digits) {
  uint32_t value = 0;
  if (text.empty() || text.size() > digits) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<BusId> parse_bus_id(std::string_view text) {
  const size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const size_t device_colon = text.rfind(':', dot);
  if (device_colon == std::string_view::npos || device_colon == 0) return std::nullopt;
  const size_t bus_colon = text.rfind(':', device_colon - 1);
  const bool has_domain = bus_colon != std::string_view::npos;
  const size_t bus_begin = has_domain ? bus_colon + 1 : 0;
  const auto domain = has_domain ? hex(text.substr(0, bus_colon), 8) : 0U;
  const auto bus = hex(text.substr(bus_begin, device_colon - bus_begin), 2);
  const auto device = hex(text.substr(device_colon + 1, dot - device_colon - 1), 2);
  const auto function = hex(text.substr(dot + 1), 1);
  if (!domain || !bus || !device || !function) return std::nullopt;
  return BusId{*domain, static_cast<uint8_t>(*bus), static_cast<uint8_t>(*device), static_cast<uint8_t>(*function)};
}

std::string to_string(const BusId& b) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", b.domain, b.bus, b.device, b.function);
}

}  // namespace twohop::topology
