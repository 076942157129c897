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

Json write_introduction(const RankIntroduction& introduction) {
  std::vector<uint8_t> address;
  for (const std::byte b : introduction.address) address.push_back(std::to_integer<uint8_t>(b));
  return Json{{"host", introduction.host},
              {"machine", introduction.machine},
              {"exchange", introduction.exchange},
              {"address", address},
              {"settings", introduction.settings}};
}

Result<RankIntroduction> read_introduction(int rank, const Json& message) {
  if (!message.is_object()) return cannot_be_read(rank);
  for (const char* name : {"host", "machine", "exchange"})
    if (!has_text(message, name)) return cannot_be_read(rank);
  if (!message.contains("address") || !message.at("address").is_array() ||
      message.at("address").size() > kMaxAddressBytes || !message.contains("settings") ||
      !message.at("settings").is_object())
    return cannot_be_read(rank);
  RankIntroduction introduction{message.at("host").get<std::string>(),
                                message.at("machine").get<std::string>(),
                                message.at("exchange").get<std::string>(),
                                {},
                                message.at("settings")};
  for (const Json& value : message.at("address")) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > 255) return cannot_be_read(rank);
    introduction.address.push_back(static_cast<std::byte>(value.get<uint64_t>()));
  }
  return introduction;
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
