// The names of enumerators in files: JSON, and the attributes of our own in NCCL XML.
#pragma once

#include <optional>
#include <string_view>

#include "topology/machine.hpp"

namespace twohop::topology {

const char* name_of(PathClass value);  // "PIX"
const char* name_of(Vendor value);
const char* name_of(NetKind value);
const char* name_of(LinkLayer value);
const char* name_of(LinkState value);
const char* name_of(GpuLinkKind value);
const char* name_of(SourceKind value);
const char* name_of(Note::Level value);

std::optional<PathClass> path_class_of(std::string_view name);
std::optional<Vendor> gpu_vendor_of(std::string_view name);
std::optional<NetKind> net_kind_of(std::string_view name);
std::optional<LinkLayer> link_layer_of(std::string_view name);
std::optional<LinkState> link_state_of(std::string_view name);
std::optional<GpuLinkKind> gpu_link_kind_of(std::string_view name);
std::optional<SourceKind> source_kind_of(std::string_view name);
std::optional<Note::Level> note_level_of(std::string_view name);

}  // namespace twohop::topology
