// Which ports does an end measure over, and what can they do? Opens them through the transport's own code.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "row.hpp"
#include "transport/verbs/verbs_rail.hpp"

namespace twohop::verbs_perf {

/// A port for one row: the address that it uses there.
struct RowPort {
  const verbs::Rail* rail = nullptr;
  verbs::GidEntry gid;
  int mtu = 1024;           // bytes: what this end allows
  int reads_in_flight = 1;  // READs and atomics of a queue pair that the device takes
};

/// What the other end says of its port.
struct RemotePort {
  std::string name;
  ibv_gid gid{};
  verbs::GidType gid_type = verbs::GidType::kIb;
  uint16_t lid = 0;
  int mtu = 1024, reads_in_flight = 1;
  bool ethernet = false;
};
nlohmann::json to_json(const RowPort& port);
Result<std::vector<RemotePort>> remote_ports(const nlohmann::json& list);

class Ports {
 public:
  /// All usable ports of the library's devices. `wanted` (-d): names of ports ("mlx5_0:1") or devices, in order; empty:
  /// all. `gid` is -x, which the server gives for itself.
  static Result<Ports> open(const std::string& library, const std::vector<std::string>& wanted, int gid);

  const std::string& library() const { return library_; }
  /// The devices say themselves that they are softnic's.
  bool emulated() const;
  /// The full names of the ports, in -d's order.
  std::vector<std::string> names() const;
  /// "a" or "a+b" with full names; the error lists what there is.
  Result<std::string> full_name(const std::string& rail) const;

  /// The client's ports for a row. Errors name the flag whose value the port does not take.
  Result<std::vector<RowPort>> for_client(const RowSpec& row) const;
  /// The server's: those of the same names, or by -d the ones at the same places; with addresses that fit the client's.
  Result<std::vector<RowPort>> for_server(const RowSpec& row, const std::vector<RemotePort>& client,
                                          const std::vector<size_t>& places) const;
  /// Where a row's rails stand in names().
  std::vector<size_t> places(const std::string& rail) const;

  /// Asks the devices whether they take the row: atomics, queue depth, inline data.
  Result<> check(const RowSpec& row) const;
  Result<> check_port(const verbs::Rail& rail, const RowSpec& row) const;
  Result<> check_inline(const std::string& rail, int bytes) const;
  std::string describe(const RowPort& port) const;

 private:
  struct Limits {
    ibv_device_attr device{};
    std::vector<verbs::GidEntry> gids;
  };
  const verbs::Rail* find(const std::string& name) const;
  Result<RowPort> port_with_mtu(size_t place, const RowSpec& row) const;
  Result<> check_inline(const verbs::Rail& rail, int bytes) const;

  std::string library_;
  std::vector<verbs::Rail> rails_;
  std::vector<Limits> limits_;
  std::vector<size_t> order_;  // -d's, in rails_
  bool chosen_ = false;
  int gid_ = -1;
};

/// Depths of a row's queues: every message and credit that may be outstanding has its slot.
constexpr int kCreditReceives = 16;
constexpr int kReceiveDepth = 512;  // data messages that may wait to be seen
uint32_t send_depth(const RowSpec& row);
uint32_t receive_depth(const RowSpec& row);

}  // namespace twohop::verbs_perf
