// See init_messages.hpp.
#include "collectives/exec/init_messages.hpp"

#include "base/bounded_json.hpp"

namespace twohop {
namespace {

using Json = nlohmann::json;
constexpr size_t kMaxAddressBytes = 512;

Error cannot_be_read(int rank) {
  Error e =
      make_error(twohopInvalidUsage,
                 "rank {} sent an init message that cannot be read: all ranks must run the same twohop version", rank);
  e.rank = rank;
  return e;
}

bool has_text(const Json& object, const char* name) {
  return object.contains(name) && object.at(name).is_string();
}

twohopResult_t code_in(const Json& message) {
  if (!message.contains("code") || !message.at("code").is_number_integer()) return twohopRemoteError;
  const auto code = message.at("code").get<int64_t>();
  return code > twohopSuccess && code <= twohopAborted ? static_cast<twohopResult_t>(code) : twohopRemoteError;
}

std::vector<uint8_t> numbers_of(const Bytes& bytes) {
  std::vector<uint8_t> numbers;
  for (const std::byte b : bytes) numbers.push_back(std::to_integer<uint8_t>(b));
  return numbers;
}

std::optional<Bytes> address_in(const Json& message) {
  if (!message.contains("address") || !message.at("address").is_array()) return std::nullopt;
  if (message.at("address").size() > kMaxAddressBytes) return std::nullopt;
  Bytes address;
  for (const Json& value : message.at("address")) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > 255) return std::nullopt;
    address.push_back(static_cast<std::byte>(value.get<uint64_t>()));
  }
  return address;
}

std::optional<std::vector<int>> rails_in(const Json& message) {
  constexpr size_t kMostRails = 1024;
  if (!message.contains("rails") || !message.at("rails").is_array()) return std::nullopt;
  if (message.at("rails").size() > kMostRails) return std::nullopt;
  std::vector<int> rails;
  for (const Json& value : message.at("rails")) {
    if (!value.is_number_integer() || value.get<int64_t>() < INT32_MIN || value.get<int64_t>() > INT32_MAX)
      return std::nullopt;
    rails.push_back(value.get<int>());
  }
  return rails;
}

Json write_gpu(const std::optional<GpuIntroduction>& gpu) {
  return gpu ? Json{{"identity", gpu->identity}, {"address", numbers_of(gpu->address)}} : Json();
}

/// Null where the rank has no GPU.
Result<std::optional<GpuIntroduction>> read_gpu(int rank, const Json& message) {
  if (message.is_null()) return std::optional<GpuIntroduction>();
  auto address = message.is_object() ? address_in(message) : std::nullopt;
  if (!address || !has_text(message, "identity")) return cannot_be_read(rank);
  return std::optional(GpuIntroduction{message.at("identity").get<std::string>(), std::move(*address)});
}

}  // namespace

std::string write_init_message(const Result<Json>& mine) {
  const Json message = mine ? Json{{"ok", *mine}} : Json{{"code", mine.error().code}, {"error", mine.error().message}};
  return message.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::vector<Json>> read_init_messages(std::span<const Bytes> by_rank) {
  std::vector<Json> values;
  for (size_t i = 0; i < by_rank.size(); ++i) {
    const int rank = static_cast<int>(i);
    const auto* text = reinterpret_cast<const char*>(by_rank[i].data());
    Json theirs = parse_bounded_json<Json>({text, by_rank[i].size()});
    if (!theirs.is_object()) return cannot_be_read(rank);
    if (has_text(theirs, "error")) {
      Error e = make_error(code_in(theirs), "rank {}: {}", rank, theirs.at("error").get<std::string>());
      e.rank = rank;
      return e;
    }
    if (!theirs.contains("ok")) return cannot_be_read(rank);
    values.push_back(std::move(theirs.at("ok")));
  }
  return values;
}

Json write_gpudirect(const GpuDirectAnswer& answer) {
  return Json{{answer.works ? "way" : "why_not", answer.text}};
}

Result<GpuDirectAnswer> read_gpudirect(int rank, const Json& message) {
  if (!message.is_object()) return cannot_be_read(rank);
  for (const char* name : {"way", "why_not"})
    if (has_text(message, name))
      return GpuDirectAnswer{name == std::string_view("way"), message.at(name).get<std::string>()};
  return cannot_be_read(rank);
}

Result<std::string> read_text(int rank, const Json& message) {
  if (!message.is_string()) return cannot_be_read(rank);
  return message.get<std::string>();
}

Result<uint32_t> read_count(int rank, const Json& message) {
  if (!message.is_number_unsigned() || message.get<uint64_t>() > UINT32_MAX) return cannot_be_read(rank);
  return message.get<uint32_t>();
}

Json write_introduction(const RankIntroduction& introduction) {
  return Json{{"host", introduction.host},         {"machine", introduction.machine},
              {"exchange", introduction.exchange}, {"address", numbers_of(introduction.address)},
              {"settings", introduction.settings}, {"rails", introduction.rails},
              {"gpu", write_gpu(introduction.gpu)}};
}

Result<RankIntroduction> read_introduction(int rank, const Json& message) {
  if (!message.is_object()) return cannot_be_read(rank);
  for (const char* name : {"host", "machine", "exchange"})
    if (!has_text(message, name)) return cannot_be_read(rank);
  auto address = address_in(message);
  if (!address || !message.contains("gpu") || !message.contains("settings") || !message.at("settings").is_object())
    return cannot_be_read(rank);
  auto rails = rails_in(message);
  if (!rails) return cannot_be_read(rank);
  auto gpu = read_gpu(rank, message.at("gpu"));
  if (!gpu) return gpu.error();
  return RankIntroduction{message.at("host").get<std::string>(),
                          message.at("machine").get<std::string>(),
                          message.at("exchange").get<std::string>(),
                          std::move(*address),
                          message.at("settings"),
                          std::move(*rails),
                          std::move(*gpu)};
}

Result<> compare_settings(int r, const Json& first, const Json& theirs) {
  if (first == theirs) return {};
  for (const auto& [name, value] : first.items())
    if (!theirs.contains(name) || theirs.at(name) != value)
      return make_error(
          twohopInvalidUsage, "{} differs between ranks: {} on rank 0, {} on rank {}; set it alike on all ranks", name,
          value.dump(-1, ' ', false, Json::error_handler_t::replace),
          theirs.contains(name) ? theirs.at(name).dump(-1, ' ', false, Json::error_handler_t::replace) : "nothing", r);
  return make_error(twohopInvalidUsage, "ranks 0 and {} run different versions of twohop", r);
}

}  // namespace twohop
