// See ports.hpp.
#include "ports.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

namespace twohop::verbs_perf {
namespace {

using verbs::GidEntry;
using verbs::GidType;
using verbs::Rail;

constexpr int kMostReadsInFlight = 16;

std::vector<std::string> parts_of(const std::string& rail) {
  std::vector<std::string> parts;
  std::istringstream in(rail);
  for (std::string part; std::getline(in, part, '+');) parts.push_back(part);
  return parts;
}

std::string joined(const std::vector<std::string>& names, const char* between) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "" : between) + n;
  return text;
}

/// Addresses that routers know before those that they do not, RoCE v2 before v1, IPv4 before IPv6.
int usefulness(const GidEntry& e) {
  return (verbs::is_link_local(e.gid) ? 0 : 4) + (e.type == GidType::kRoceV1 ? 0 : 2) + (verbs::is_ipv4(e.gid) ? 1 : 0);
}

/// How well an address answers one of the other end's: version and family must fit, the kind of address should.
int likeness(const GidEntry& e, const RemotePort& remote) {
  const bool fits = e.type == remote.gid_type && verbs::is_ipv4(e.gid) == verbs::is_ipv4(remote.gid);
  return (fits ? 2 : 0) + (verbs::is_link_local(e.gid) == verbs::is_link_local(remote.gid) ? 1 : 0);
}

template <class Score>
Result<GidEntry> best_gid(const Rail& rail, const std::vector<GidEntry>& table, Score&& score) {
  const auto best = std::max_element(table.begin(), table.end(),
                                     [&](const GidEntry& a, const GidEntry& b) { return score(a) < score(b); });
  if (best != table.end()) return *best;
  if (!rail.ethernet) return GidEntry{};  // LIDs are what counts
  return make_error(twohopSystemError, "{} has no GID: give its network interface an address and bring it up",
                    rail.name);
}

Result<GidEntry> gid_at(const Rail& rail, const std::vector<GidEntry>& table, int index) {
  const auto it = std::find_if(table.begin(), table.end(), [&](const GidEntry& e) { return e.index == index; });
  if (it != table.end()) return *it;
  return make_error(twohopInvalidArgument, "-x {}: {} has no such GID; it has {}", index, rail.name,
                    verbs::describe(table));
}

std::string hex(const ibv_gid& gid) {
  std::string text;
  for (uint8_t byte : gid.raw) text += fmt::format("{:02x}", byte);
  return text;
}

bool from_hex(const std::string& text, ibv_gid& gid) {
  if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != std::string::npos) return false;
  for (size_t i = 0; i < 16; ++i) gid.raw[i] = static_cast<uint8_t>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return true;
}

/// Whether a queue pair with so much inline data can be made.
bool takes_inline(const Rail& rail, const std::shared_ptr<verbs::CompletionQueue>& cq, uint32_t bytes) {
  verbs::QueueDepths depths{16, 16, bytes};
  auto pair = verbs::QueuePair::create(rail.pd, cq, depths);
  return pair && depths.inline_bytes >= bytes;
}

}  // namespace

uint32_t send_depth(const RowSpec& row) {
  return 2 * static_cast<uint32_t>(row.tx_depth) + kCreditReceives;
}

uint32_t receive_depth(const RowSpec& row) {
  return needs_receives(row.op) ? kReceiveDepth + kCreditReceives : 1;
}

nlohmann::json to_json(const RowPort& port) {
  return {{"name", port.rail->name},        {"gid", hex(port.gid.gid)}, {"gid_type", static_cast<int>(port.gid.type)},
          {"lid", port.rail->lid},          {"mtu", port.mtu},          {"reads_in_flight", port.reads_in_flight},
          {"ethernet", port.rail->ethernet}};
}

Result<std::vector<RemotePort>> remote_ports(const nlohmann::json& list) {
  std::vector<RemotePort> ports;
  try {
    for (const auto& j : list) {
      RemotePort p;
      j.at("name").get_to(p.name);
      p.gid_type = static_cast<GidType>(std::clamp(j.at("gid_type").get<int>(), 0, 2));
      j.at("lid").get_to(p.lid);
      j.at("mtu").get_to(p.mtu);
      j.at("reads_in_flight").get_to(p.reads_in_flight);
      j.at("ethernet").get_to(p.ethernet);
      if (p.reads_in_flight < 1 || !from_hex(j.at("gid").get<std::string>(), p.gid) ||
          verbs::mtu_bytes(verbs::mtu_from_bytes(p.mtu)) != p.mtu)
        return make_error(twohopRemoteError, "the other end describes its port {} by {}", p.name, j.dump());
      ports.push_back(std::move(p));
    }
  } catch (const nlohmann::json::exception& e) {
    return make_error(twohopRemoteError, "the other end's ports cannot be read: {}", e.what());
  }
  if (ports.empty() || ports.size() > 64)
    return make_error(twohopRemoteError, "the other end names {} ports for a row", ports.size());
  return ports;
}

Result<Ports> Ports::open(const std::string& library, const std::vector<std::string>& wanted, int gid) {
  auto loaded = verbs::VerbsLibrary::load(library);
  if (!loaded) return loaded.error();
  verbs::RailWish wish;
  wish.max_rails = 64;
  auto rails = verbs::open_rails(*loaded, wish);
  if (!rails) return rails.error();
  Ports ports;
  ports.library_ = library;
  ports.rails_ = std::move(*rails);
  ports.gid_ = gid;
  for (const Rail& rail : ports.rails_) {
    Limits limits;
    const verbs::VerbsApi& api = rail.context->api();
    ibv_port_attr port{};
    if (const int failed = api.query_device(rail.context->get(), &limits.device))
      return system_error(failed, "{} cannot be queried", rail.name);
    if (const int failed =
            api.query_port(rail.context->get(), rail.port, reinterpret_cast<_compat_ibv_port_attr*>(&port)))
      return system_error(failed, "{} cannot be queried", rail.name);
    limits.gids = verbs::read_gids(*rail.context, rail.port, port.gid_tbl_len);
    ports.limits_.push_back(std::move(limits));
  }
  ports.chosen_ = !wanted.empty();
  for (const std::string& name : wanted)
    for (const std::string& part : parts_of(name)) {
      const Rail* rail = ports.find(part);
      if (!rail) return ports.full_name(part).error();
      const auto at = static_cast<size_t>(rail - ports.rails_.data());
      if (std::find(ports.order_.begin(), ports.order_.end(), at) == ports.order_.end()) ports.order_.push_back(at);
    }
  for (size_t i = 0; !ports.chosen_ && i < ports.rails_.size(); ++i) ports.order_.push_back(i);
  return ports;
}

bool Ports::emulated() const {
  return std::string_view(limits_.front().device.fw_ver) == "softnic";
}

std::vector<std::string> Ports::names() const {
  std::vector<std::string> names;
  for (size_t i : order_) names.push_back(rails_[i].name);
  return names;
}

const Rail* Ports::find(const std::string& name) const {
  const auto it = std::find_if(rails_.begin(), rails_.end(),
                               [&](const Rail& r) { return r.name == name || r.context->name() == name; });
  return it == rails_.end() ? nullptr : &*it;
}

Result<std::string> Ports::full_name(const std::string& rail) const {
  std::vector<std::string> names, all;
  for (const Rail& r : rails_) all.push_back(r.name);
  for (const std::string& part : parts_of(rail)) {
    const Rail* found = find(part);
    if (!found)
      return make_error(twohopInvalidArgument, "-d {}: there is no such active RDMA port here; there are {}", part,
                        joined(all, ", "));
    if (std::find(names.begin(), names.end(), found->name) != names.end())
      return make_error(twohopInvalidArgument, "-d {}: names {} twice", rail, found->name);
    names.push_back(found->name);
  }
  if (names.empty()) return make_error(twohopInvalidArgument, "-d: an empty name; there are {}", joined(all, ", "));
  return joined(names, "+");
}

std::vector<size_t> Ports::places(const std::string& rail) const {
  const std::vector<std::string> all = names();
  std::vector<size_t> places;
  for (const std::string& part : parts_of(rail))
    places.push_back(static_cast<size_t>(std::find(all.begin(), all.end(), part) - all.begin()));
  return places;
}

Result<RowPort> Ports::port_with_mtu(size_t place, const RowSpec& row) const {
  RowPort port;
  port.rail = &rails_[order_[place]];
  const int active = verbs::mtu_bytes(port.rail->mtu);
  if (row.mtu > active)
    return make_error(twohopInvalidArgument,
                      "-m {}: the active MTU of {} is {}: give at most that, or raise the port's", row.mtu,
                      port.rail->name, active);
  port.mtu = row.mtu == 0 ? active : row.mtu;
  const ibv_device_attr& device = limits_[order_[place]].device;
  port.reads_in_flight = std::clamp(std::min(device.max_qp_rd_atom, device.max_qp_init_rd_atom), 1, kMostReadsInFlight);
  return port;
}

Result<std::vector<RowPort>> Ports::for_client(const RowSpec& row) const {
  std::vector<RowPort> ports;
  for (size_t place : places(row.rail)) {
    auto port = port_with_mtu(place, row);
    if (!port) return port.error();
    const auto& table = limits_[order_[place]].gids;
    auto gid = row.gid >= 0 ? gid_at(*port->rail, table, row.gid) : best_gid(*port->rail, table, usefulness);
    if (!gid) return gid.error();
    port->gid = *gid;
    ports.push_back(std::move(*port));
  }
  return ports;
}

Result<std::vector<RowPort>> Ports::for_server(const RowSpec& row, const std::vector<RemotePort>& client,
                                               const std::vector<size_t>& places) const {
  std::vector<RowPort> ports;
  const std::vector<std::string> all = names();
  for (size_t i = 0; i < client.size(); ++i) {
    const auto same = static_cast<size_t>(std::find(all.begin(), all.end(), client[i].name) - all.begin());
    const size_t place = chosen_ ? places[i] : same;
    if (place >= all.size())
      return make_error(twohopInvalidArgument,
                        "the row uses the client's {}, for which this end has no port: it has {}; name them in the "
                        "client's order by -d here",
                        client[i].name, joined(all, ", "));
    auto port = port_with_mtu(place, row);
    if (!port) return port.error();
    if (port->rail->ethernet != client[i].ethernet)
      return make_error(twohopInvalidUsage, "{} is {}, the client's {} is {}: these cannot be connected",
                        port->rail->name, verbs::link_layer_name(port->rail->ethernet), client[i].name,
                        verbs::link_layer_name(client[i].ethernet));
    const auto& table = limits_[order_[place]].gids;
    auto gid = gid_ >= 0 ? gid_at(*port->rail, table, gid_)
                         : best_gid(*port->rail, table, [&](const GidEntry& e) { return likeness(e, client[i]); });
    if (!gid) return gid.error();
    port->gid = *gid;
    ports.push_back(std::move(*port));
  }
  return ports;
}

Result<> Ports::check_inline(const std::string& rail, int bytes) const {
  for (size_t place : places(rail))
    if (auto ok = check_inline(rails_[order_[place]], bytes); !ok) return ok;
  return {};
}

Result<> Ports::check_inline(const Rail& rail, int bytes) const {
  if (bytes == 0) return {};
  auto cq = verbs::CompletionQueue::create(rail.context, rail.channel, 16);
  if (!cq) return cq.error();
  const auto wanted = static_cast<uint32_t>(bytes);
  if (takes_inline(rail, *cq, wanted)) return {};
  uint32_t least = 0, most = wanted;  // takes `least`, not `most`
  while (most - least > 1) {
    const uint32_t middle = (least + most) / 2;
    (takes_inline(rail, *cq, middle) ? least : most) = middle;
  }
  return make_error(twohopInvalidArgument, "-I {}: {} takes at most {} bytes inline", wanted, rail.name, least);
}

Result<> Ports::check(const RowSpec& row) const {
  for (size_t place : places(row.rail))
    if (auto ok = check_port(rails_[order_[place]], row); !ok) return ok;
  return {};
}

Result<> Ports::check_port(const Rail& rail, const RowSpec& row) const {
  const ibv_device_attr& device = limits_[static_cast<size_t>(&rail - rails_.data())].device;
  if (row.op == Op::kAtomic && device.atomic_cap == IBV_ATOMIC_NONE)
    return make_error(twohopInvalidArgument, "--op atomic: {} has no atomics", rail.name);
  if (row.op == Op::kRead && device.max_qp_rd_atom < 1)
    return make_error(twohopInvalidArgument, "--op read: {} has no READ", rail.name);
  if (send_depth(row) > rail.max_requests)
    return make_error(twohopInvalidArgument, "-t {}: needs a queue of {} requests, {} has at most {}", row.tx_depth,
                      send_depth(row), rail.name, rail.max_requests);
  return check_inline(rail, row.inline_bytes);
}

std::string Ports::describe(const RowPort& port) const {
  return fmt::format("{} ({}, GID {} {} {}, MTU {})", port.rail->name, verbs::link_layer_name(port.rail->ethernet),
                     port.gid.index, verbs::to_string(port.gid.gid), verbs::gid_type_name(port.gid.type), port.mtu);
}

}  // namespace twohop::verbs_perf
