// A machine as JSON, read. Every value is checked; an error names the file, the member, and what is accepted.
#include <nlohmann/json.hpp>

#include "topology/bus_id.hpp"
#include "topology/cpu_set.hpp"
#include "topology/enums.hpp"
#include "topology/finish.hpp"
#include "topology/json.hpp"
#include "topology/json_fields.hpp"
#include "topology/text.hpp"

namespace twohop::topology {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxBytes = 64U << 20;
constexpr int kMaxDepth = 16;

/// Puts values into members; keeps the first error and where it was.
class Reader {
 public:
  explicit Reader(std::string source) : source_(std::move(source)) {}

  const std::optional<Error>& error() const { return error_; }

  void read(const Json& value, const std::string& path, std::string& out) {
    if (!value.is_string()) return wrong(path, value, "a text");
    out = value.get_ref<const std::string&>();
  }
  void read(const Json& value, const std::string& path, bool& out) {
    if (!value.is_boolean()) return wrong(path, value, "true or false");
    out = value.get<bool>();
  }
  void read(const Json& value, const std::string& path, double& out) {
    if (!value.is_number()) return wrong(path, value, "a number");
    out = value.get<double>();
  }
  void read(const Json& value, const std::string& path, int& out) {
    const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= INT32_MAX
                                                 : value.is_number_integer() && value.get<int64_t>() >= INT32_MIN;
    if (!fits) return wrong(path, value, "a whole number of 32 bits");
    out = value.get<int>();
  }
  void read(const Json& value, const std::string& path, uint64_t& out) { out = hex(value, path, UINT64_MAX); }
  void read(const Json& value, const std::string& path, uint32_t& out) {
    out = static_cast<uint32_t>(hex(value, path, UINT32_MAX));
  }
  void read(const Json& value, const std::string& path, uint16_t& out) {
    out = static_cast<uint16_t>(hex(value, path, UINT16_MAX));
  }
  void read(const Json& value, const std::string& path, BusId& out) {
    parsed(value, path, out, parse_bus_id, "a bus id as 0000:3b:00.0");
  }
  void read(const Json& value, const std::string& path, std::vector<CpuRange>& out) {
    if (value.is_string() && value.get_ref<const std::string&>().empty())
      out.clear();
    else
      parsed(value, path, out, parse_cpu_list, "a list of CPUs as 0-3,8");
  }
  void read(const Json& value, const std::string& path, PathClass& out) {
    parsed(value, path, out, path_class_of, "LOC, NVL, C2C, PIX, PXB, PHB, NODE or SYS");
  }
  void read(const Json& value, const std::string& path, Vendor& out) {
    parsed(value, path, out, gpu_vendor_of, "unknown, nvidia, amd, hygon or intel");
  }
  void read(const Json& value, const std::string& path, NetKind& out) {
    parsed(value, path, out, net_kind_of, "rdma, other-rdma, physical, virtual or wireless");
  }
  void read(const Json& value, const std::string& path, LinkLayer& out) {
    parsed(value, path, out, link_layer_of, "unknown, infiniband or ethernet");
  }
  void read(const Json& value, const std::string& path, LinkState& out) {
    parsed(value, path, out, link_state_of, "unknown, active or down");
  }
  void read(const Json& value, const std::string& path, GpuLinkKind& out) {
    parsed(value, path, out, gpu_link_kind_of, "nvlink, xgmi or c2c");
  }
  void read(const Json& value, const std::string& path, SourceKind& out) {
    parsed(value, path, out, source_kind_of, "live, hwloc-xml, nccl-xml, matrix or device-info");
  }
  void read(const Json& value, const std::string& path, Note::Level& out) {
    parsed(value, path, out, note_level_of, "info or warning");
  }

  template <class T>
  void read(const Json& value, const std::string& path, std::vector<T>& out) {
    if (!value.is_array()) return wrong(path, value, "a list");
    out.clear();
    for (size_t i = 0; i < value.size() && !error_; ++i)
      read(value[i], fmt::format("{}[{}]", path, i), out.emplace_back());
  }

  template <class T>
  void read(const Json& value, const std::string& path, std::optional<T>& out) {
    out.reset();
    if (!value.is_null()) read(value, path, out.emplace());
  }

  /// Members that are missing keep their defaults, so that files of older versions are read.
  template <class T>
  void read(const Json& value, const std::string& path, T& out) requires requires {
    fields_of(out, [](const char*, auto&) {});
  }
  {
    if (!value.is_object()) return wrong(path, value, "an object");
    fields_of(out, [&](const char* name, auto& member) {
      const auto at = value.find(name);
      if (at != value.end() && !error_) read(*at, path.empty() ? name : path + "." + name, member);
    });
  }

 private:
  void wrong(const std::string& path, const Json& value, const char* accepted) {
    if (error_) return;
    const std::string text =
        value.is_structured() ? value.type_name() : shown(value.dump(-1, ' ', true, Json::error_handler_t::replace));
    error_ = make_error(twohopInvalidArgument, "{}: {} is {}; it must be {}", source_, path, text, accepted);
  }

  uint64_t hex(const Json& value, const std::string& path, uint64_t high) {
    const auto number = value.is_string() ? parse_hex(value.get_ref<const std::string&>()) : std::nullopt;
    if (!number || *number > high) wrong(path, value, "a hexadecimal number as \"0x10de\"");
    return number.value_or(0);
  }

  template <class T, class Parse>
  void parsed(const Json& value, const std::string& path, T& out, const Parse& parse, const char* accepted) {
    std::optional<T> found;
    if (value.is_string()) found = parse(std::string_view(value.get_ref<const std::string&>()));
    if (!found) return wrong(path, value, accepted);
    out = *std::move(found);
  }

  std::string source_;
  std::optional<Error> error_;
};

Result<Json> parse(std::string_view text, const std::string& source) {
  if (text.size() > kMaxBytes)
    return make_error(twohopInvalidArgument, "{}: {} bytes; JSON of up to {} bytes is read", source, text.size(),
                      kMaxBytes);
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  Json document = Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (too_deep) return make_error(twohopInvalidArgument, "{}: JSON nested more than {} deep", source, kMaxDepth);
  if (document.is_discarded())
    return make_error(twohopInvalidArgument, "{}: not well-formed JSON (is the file cut?)", source);
  return document;
}

}  // namespace

Result<Machine> read_json(std::string_view text, const std::string& source) {
  auto document = parse(text, source);
  if (!document) return document.error();
  const Json* object = &*document;
  if (object->is_object() && object->contains("machine")) object = &(*object)["machine"];
  const bool ours = object->is_object() && object->value("format", Json()) == "twohop-machine";
  if (!ours)
    return make_error(twohopInvalidArgument, "{}: JSON, but no machine: it must have \"format\": \"twohop-machine\"",
                      source);
  if (object->value("version", Json()) != 1)
    return make_error(twohopInvalidArgument,
                      "{}: \"version\" of the machine must be 1; newer versions are not known here", source);
  Machine machine;
  Reader reader(source);
  reader.read(*object, "", machine);
  if (reader.error()) return *reader.error();
  if (auto ok = check_machine(machine); !ok)
    return make_error(twohopInvalidArgument, "{}: {}", source, ok.error().message);
  return machine;
}

}  // namespace twohop::topology
