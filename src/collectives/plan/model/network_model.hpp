// NetworkModel: what does it cost, on some machines, to do what a schedule's steps ask for? Numbers only; the simulator
// (simulator.hpp) gives them their meaning. Read and written as JSON text; files are the caller's business.
//
// All times are microseconds, all rates 1e9 bytes per second. 0 for a rate that is not a limit means: takes no time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace twohop {

struct NetworkModel {
  std::string name = "host";  // whose numbers these are, for reports

  // The machine. A rank is one thread, and shares the cores of its machine when there are more ranks than cores.
  int64_t cores = 64;
  int64_t nodes_per_machine = 1;  // virtual nodes on one machine; 0: all nodes are on one
  double switch_us = 1.5;         // until a core has changed from one rank to another

  // Memory. A byte of a user's buffer comes from memory, not from cache, as far as the buffers of the machine's ranks
  // exceed cache_bytes; windows are always in cache.
  double copy_gbytes_per_s = 13;    // bytes copied, in cache
  double reduce_gbytes_per_s = 35;  // bytes of sources read, in cache
  double memory_gbytes_per_s = 8;   // bytes moved between memory and one rank
  double cache_bytes = 64e6;
  double step_us = 0.1;    // of each copy and reduce
  double signal_us = 0.4;  // until another rank of the node sees a signal
  double call_us = 0.5;    // of each call, whatever it does

  // The work that the network makes for a rank.
  double sweep_us = 0.1;               // one look at the network
  double message_us = 0.1;             // of each put or credit that is posted
  double doorbell_us = 0.3;            // of each batch of puts that is handed over
  double completion_us = 0.2;          // of each arrival, credit or end of sending that is noticed
  double send_gbytes_per_s = 0;        // copying into the network's buffers: TCP, an emulated device
  double receive_gbytes_per_s = 0;     // copying out of them
  bool sent_when_handed_over = false;  // a put's source is free as soon as it is posted, since it was copied (TCP)

  // The wire.
  int64_t rails = 1;  // of each node
  double rail_gbytes_per_s = 12;
  double latency_us = 2.5;
  double header_bytes = 32;  // of each put
  double packet_bytes = 4096;

  // Loss. With Go-Back-N a lost packet costs all packets that are in flight behind it.
  double loss = 0;  // probability that a packet is lost
  bool go_back_n = true;

  // The spine. Nodes are in groups under a leaf switch; a leaf has uplinks, and each queue pair is hashed to one of
  // them.
  int64_t nodes_per_leaf = 0;   // 0: one switch, no spine
  double oversubscription = 1;  // what the nodes of a leaf can send, divided by what its uplinks carry
  int64_t uplinks_per_leaf = 8;
  int64_t qps_per_connection = 1;

  bool operator==(const NetworkModel&) const = default;
};

/// A member that takes part in calibration or in JSON: name, place, range, meaning.
struct ModelField {
  const char* name;
  double NetworkModel::*real;  // one of these three is set
  int64_t NetworkModel::*whole;
  bool NetworkModel::*flag;
  double min, max;
  const char* help;
};
const std::vector<ModelField>& model_fields();

/// Models for where nothing was measured: "host" (CPU memory, RDMA), "gpu" (NVLink, a rail per GPU), "tcp", "softnic".
const std::vector<NetworkModel>& builtin_models();
/// Null when there is none of that name.
const NetworkModel* find_builtin_model(std::string_view name);

/// Goodput of a wire on which packets are lost, as a share of its rate, with so many packets in flight.
double loss_share(const NetworkModel& model, double packets_in_flight);

/// Members that the text does not name keep their default. Refused: what is not JSON, an unknown name, a value of
/// another type or out of range; the message names it.
Result<NetworkModel> parse_model(std::string_view json);
std::string format_model(const NetworkModel& model);

}  // namespace twohop
