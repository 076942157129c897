// A machine as JSON, written.
#include <nlohmann/json.hpp>

#include "topology/bus_id.hpp"
#include "topology/cpu_set.hpp"
#include "topology/enums.hpp"
#include "topology/json.hpp"
#include "topology/json_fields.hpp"

namespace twohop::topology {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
concept Named = requires(T value) {
  { name_of(value) } -> std::convertible_to<const char*>;
};
template <class T>
concept HasFields = requires(const T& value) {
  fields_of(value, [](const char*, const auto&) {});
};

Json value_of(const std::string& text) {
  return text;
}
Json value_of(bool value) {
  return value;
}
Json value_of(double value) {
  return value;
}
Json value_of(int value) {
  return value;
}
Json value_of(uint64_t value) {
  return fmt::format("{:#x}", value);
}  // beyond what readers of JSON keep exactly
Json value_of(uint32_t value) {
  return fmt::format("0x{:06x}", value);
}
Json value_of(uint16_t value) {
  return fmt::format("0x{:04x}", value);
}
Json value_of(const BusId& bus) {
  return to_string(bus);
}
Json value_of(const std::vector<CpuRange>& cpus) {
  return to_cpu_list(cpus);
}

template <Named T>
Json value_of(T value) {
  return name_of(value);
}

template <HasFields T>
Json value_of(const T& value);

template <class T>
Json value_of(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(value_of(value));
  return list;
}

template <class T>
Json value_of(const std::optional<T>& value) {
  return value ? value_of(*value) : Json(nullptr);
}

template <HasFields T>
Json value_of(const T& value) {
  Json object = Json::object();
  fields_of(value, [&](const char* name, const auto& member) { object[name] = value_of(member); });
  return object;
}

}  // namespace

Json to_json_value(const Machine& machine) {
  Json document = {{"format", "twohop-machine"}, {"version", 1}};
  const Json members = value_of(machine);
  for (const auto& [name, value] : members.items()) document[name] = value;
  return document;
}

std::string write_json(const Machine& machine) {
  // Names out of files may not be UTF-8; such bytes are replaced rather than refused.
  return to_json_value(machine).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace twohop::topology
