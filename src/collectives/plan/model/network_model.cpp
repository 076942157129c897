// See network_model.hpp: the table of members, JSON both ways, loss.
#include "collectives/plan/model/network_model.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/bounded_json.hpp"

namespace twohop {
namespace {

using Json = nlohmann::ordered_json;

constexpr ModelField real(const char* name, double NetworkModel::*member, double min, double max, const char* help) {
  return {name, member, nullptr, nullptr, min, max, help};
}
constexpr ModelField whole(const char* name, int64_t NetworkModel::*member, double min, double max, const char* help) {
  return {name, nullptr, member, nullptr, min, max, help};
}
constexpr ModelField flag(const char* name, bool NetworkModel::*member, const char* help) {
  return {name, nullptr, nullptr, member, 0, 1, help};
}

Error refuse(const ModelField& f, const Json& value) {
  return make_error(twohopInvalidArgument, "network model: {} is {}; accepted is {} from {} to {} ({})", f.name,
                    value.dump(),
                    f.flag    ? "true or false"
                    : f.whole ? "a whole number"
                              : "a number",
                    f.min, f.max, f.help);
}

Result<> assign(NetworkModel& model, const ModelField& f, const Json& value) {
  if (f.flag) {
    if (!value.is_boolean()) return refuse(f, value);
    model.*f.flag = value.get<bool>();
    return {};
  }
  const bool right_type = f.whole ? value.is_number_integer() : value.is_number();
  const double number = right_type ? value.get<double>() : NAN;
  if (!(number >= f.min && number <= f.max)) return refuse(f, value);
  if (f.whole)
    model.*f.whole = value.get<int64_t>();
  else
    model.*f.real = number;
  return {};
}

Result<> assign(NetworkModel& model, const std::string& name, const Json& value) {
  if (name == "name") {
    if (!value.is_string())
      return make_error(twohopInvalidArgument, "network model: name is {}, not text", value.dump());
    model.name = value.get<std::string>();
    return {};
  }
  for (const ModelField& f : model_fields())
    if (name == f.name) return assign(model, f, value);
  return make_error(twohopInvalidArgument, "network model: no member is called \"{}\"; docs/model.md lists them", name);
}

}  // namespace

const std::vector<ModelField>& model_fields() {
  using M = NetworkModel;
  static const std::vector<ModelField> fields = {
      whole("cores", &M::cores, 1, 1 << 20, "cores of a machine"),
      whole("nodes_per_machine", &M::nodes_per_machine, 0, 1 << 20, "virtual nodes on one machine; 0: all"),
      real("switch_us", &M::switch_us, 0, 1e6, "until a core has changed from one rank to another"),
      real("copy_gbytes_per_s", &M::copy_gbytes_per_s, 0.001, 1e6, "copying in cache"),
      real("reduce_gbytes_per_s", &M::reduce_gbytes_per_s, 0.001, 1e6, "reading sources of a reduction in cache"),
      real("memory_gbytes_per_s", &M::memory_gbytes_per_s, 0.001, 1e6, "between memory and one rank"),
      real("cache_bytes", &M::cache_bytes, 0, 1e15, "user data of a machine that stays in cache"),
      real("step_us", &M::step_us, 0, 1e6, "each copy and reduce"),
      real("signal_us", &M::signal_us, 0, 1e6, "until a rank of the node sees a signal"),
      real("call_us", &M::call_us, 0, 1e6, "each call"),
      real("sweep_us", &M::sweep_us, 0, 1e6, "one look at the network"),
      real("message_us", &M::message_us, 0, 1e6, "posting a put or credit"),
      real("doorbell_us", &M::doorbell_us, 0, 1e6, "handing a batch over"),
      real("completion_us", &M::completion_us, 0, 1e6, "noticing an arrival, a credit, an end of sending"),
      real("send_gbytes_per_s", &M::send_gbytes_per_s, 0, 1e6, "copying on sending; 0: none"),
      real("receive_gbytes_per_s", &M::receive_gbytes_per_s, 0, 1e6, "copying on receiving; 0: none"),
      flag("sent_when_handed_over", &M::sent_when_handed_over, "sources are free once posted"),
      whole("rails", &M::rails, 1, 64, "rails of a node"),
      real("rail_gbytes_per_s", &M::rail_gbytes_per_s, 0.000001, 1e6, "rate of a rail"),
      real("latency_us", &M::latency_us, 0, 1e6, "of the wire"),
      real("header_bytes", &M::header_bytes, 0, 1e6, "of each put"),
      real("packet_bytes", &M::packet_bytes, 64, 1e6, "payload of a packet"),
      real("loss", &M::loss, 0, 0.5, "probability that a packet is lost"),
      flag("go_back_n", &M::go_back_n, "a loss costs all that is in flight"),
      whole("nodes_per_leaf", &M::nodes_per_leaf, 0, 1 << 20, "nodes under a leaf switch; 0: one switch"),
      real("oversubscription", &M::oversubscription, 0.01, 1000, "rate of a leaf's nodes over that of its uplinks"),
      whole("uplinks_per_leaf", &M::uplinks_per_leaf, 1, 4096, "uplinks of a leaf"),
      whole("qps_per_connection", &M::qps_per_connection, 1, 128, "queue pairs per connection")};
  return fields;
}

const std::vector<NetworkModel>& builtin_models() {
  static const std::vector<NetworkModel> models = [] {
    const NetworkModel host;
    NetworkModel gpu = host, tcp = host, softnic = host;
    gpu.name = "gpu";
    gpu.copy_gbytes_per_s = 250;
    gpu.reduce_gbytes_per_s = 300;
    gpu.memory_gbytes_per_s = 1000;
    gpu.step_us = 0.5;
    gpu.signal_us = 1;
    gpu.call_us = 8;
    gpu.rails = 8;
    gpu.rail_gbytes_per_s = 48;
    tcp.name = "tcp";
    tcp.switch_us = softnic.switch_us = 5;  // ranks that wait for the network sleep
    tcp.sweep_us = 1;
    tcp.message_us = 0.3;
    tcp.doorbell_us = 4;
    tcp.completion_us = 0.5;
    tcp.send_gbytes_per_s = 6;
    tcp.receive_gbytes_per_s = 6;
    tcp.sent_when_handed_over = true;
    tcp.rail_gbytes_per_s = 1.2;
    tcp.latency_us = 15;
    tcp.packet_bytes = 1448;
    tcp.go_back_n = false;
    softnic.name = "softnic";
    softnic.doorbell_us = 1.5;
    softnic.send_gbytes_per_s = 10;
    NetworkModel loopback = tcp;
    loopback.name = "loopback";
    loopback.rail_gbytes_per_s = 5;
    loopback.latency_us = 8;
    loopback.packet_bytes = 65483;
    return std::vector{host, gpu, tcp, loopback, softnic};
  }();
  return models;
}

const NetworkModel* find_builtin_model(std::string_view name) {
  for (const NetworkModel& m : builtin_models())
    if (m.name == name) return &m;
  return nullptr;
}

double loss_share(const NetworkModel& model, double packets_in_flight) {
  if (model.loss <= 0) return 1;
  const double again = model.go_back_n ? std::max(1.0, packets_in_flight) : 1;
  return (1 - model.loss) / (1 - model.loss + model.loss * again);
}

Result<NetworkModel> parse_model(std::string_view text) {
  const Json json = parse_bounded_json<Json>(text);
  if (!json.is_object())
    return make_error(twohopInvalidArgument, "network model: not a JSON object; perf/calibrate writes one");
  NetworkModel model;
  for (const auto& [name, value] : json.items())
    if (auto done = assign(model, name, value); !done) return done.error();
  return model;
}

std::string format_model(const NetworkModel& model) {
  Json json;
  json["name"] = model.name;
  for (const ModelField& f : model_fields()) {
    if (f.flag)
      json[f.name] = model.*f.flag;
    else if (f.whole)
      json[f.name] = model.*f.whole;
    else
      json[f.name] = model.*f.real;
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace twohop
