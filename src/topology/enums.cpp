// One table per enumeration; both directions read it.
#include "topology/enums.hpp"

#include <array>
#include <utility>

namespace twohop::topology {
namespace {

template <class Enum, size_t N>
using Table = std::array<std::pair<Enum, const char*>, N>;

constexpr Table<PathClass, 8> kPathClasses = {{{PathClass::kLoc, "LOC"},
                                               {PathClass::kNvl, "NVL"},
                                               {PathClass::kC2c, "C2C"},
                                               {PathClass::kPix, "PIX"},
                                               {PathClass::kPxb, "PXB"},
                                               {PathClass::kPhb, "PHB"},
                                               {PathClass::kNode, "NODE"},
                                               {PathClass::kSys, "SYS"}}};
constexpr Table<Vendor, 5> kVendors = {{{Vendor::kUnknown, "unknown"},
                                        {Vendor::kNvidia, "nvidia"},
                                        {Vendor::kAmd, "amd"},
                                        {Vendor::kHygon, "hygon"},
                                        {Vendor::kIntel, "intel"}}};
constexpr Table<NetKind, 5> kNetKinds = {{{NetKind::kRdma, "rdma"},
                                          {NetKind::kOtherRdma, "other-rdma"},
                                          {NetKind::kPhysical, "physical"},
                                          {NetKind::kVirtual, "virtual"},
                                          {NetKind::kWireless, "wireless"}}};
constexpr Table<LinkLayer, 3> kLinkLayers = {
    {{LinkLayer::kUnknown, "unknown"}, {LinkLayer::kInfiniband, "infiniband"}, {LinkLayer::kEthernet, "ethernet"}}};
constexpr Table<LinkState, 3> kLinkStates = {
    {{LinkState::kUnknown, "unknown"}, {LinkState::kActive, "active"}, {LinkState::kDown, "down"}}};
constexpr Table<GpuLinkKind, 3> kGpuLinkKinds = {
    {{GpuLinkKind::kNvlink, "nvlink"}, {GpuLinkKind::kXgmi, "xgmi"}, {GpuLinkKind::kC2c, "c2c"}}};
constexpr Table<SourceKind, 5> kSourceKinds = {{{SourceKind::kLive, "live"},
                                                {SourceKind::kHwlocXml, "hwloc-xml"},
                                                {SourceKind::kNcclXml, "nccl-xml"},
                                                {SourceKind::kMatrix, "matrix"},
                                                {SourceKind::kDeviceInfo, "device-info"}}};
constexpr Table<Note::Level, 2> kNoteLevels = {{{Note::Level::kInfo, "info"}, {Note::Level::kWarning, "warning"}}};

template <class Enum, size_t N>
const char* name_in(const Table<Enum, N>& table, Enum value) {
  for (const auto& [known, name] : table)
    if (known == value) return name;
  return "unknown";
}

template <class Enum, size_t N>
std::optional<Enum> value_in(const Table<Enum, N>& table, std::string_view name) {
  for (const auto& [value, known] : table)
    if (name == known) return value;
  return std::nullopt;
}

}  // namespace

const char* name_of(PathClass value) {
  return name_in(kPathClasses, value);
}
const char* name_of(Vendor value) {
  return name_in(kVendors, value);
}
const char* name_of(NetKind value) {
  return name_in(kNetKinds, value);
}
const char* name_of(LinkLayer value) {
  return name_in(kLinkLayers, value);
}
const char* name_of(LinkState value) {
  return name_in(kLinkStates, value);
}
const char* name_of(GpuLinkKind value) {
  return name_in(kGpuLinkKinds, value);
}
const char* name_of(SourceKind value) {
  return name_in(kSourceKinds, value);
}
const char* name_of(Note::Level value) {
  return name_in(kNoteLevels, value);
}

std::optional<PathClass> path_class_of(std::string_view name) {
  return value_in(kPathClasses, name);
}
std::optional<Vendor> gpu_vendor_of(std::string_view name) {
  return value_in(kVendors, name);
}
std::optional<NetKind> net_kind_of(std::string_view name) {
  return value_in(kNetKinds, name);
}
std::optional<LinkLayer> link_layer_of(std::string_view name) {
  return value_in(kLinkLayers, name);
}
std::optional<LinkState> link_state_of(std::string_view name) {
  return value_in(kLinkStates, name);
}
std::optional<GpuLinkKind> gpu_link_kind_of(std::string_view name) {
  return value_in(kGpuLinkKinds, name);
}
std::optional<SourceKind> source_kind_of(std::string_view name) {
  return value_in(kSourceKinds, name);
}
std::optional<Note::Level> note_level_of(std::string_view name) {
  return value_in(kNoteLevels, name);
}

}  // namespace twohop::topology
