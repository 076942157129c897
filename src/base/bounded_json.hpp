// JSON from outside, read with a bound on its depth: a value that is nested a million deep would be read, and then end
// the process when it is compared, printed or copied, since all that recurses.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace twohop {

constexpr int kMaxJsonDepth = 32;

/// Discarded (is_discarded(), no type fits) where the text is no JSON or is nested more deeply. Json: nlohmann::json or
/// ordered_json.
template <class Json>
Json parse_bounded_json(std::string_view text) {
  bool too_deep = false;
  const auto watch = [&](int depth, typename Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxJsonDepth;
    return !too_deep;
  };
  Json value = Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  return too_deep ? Json(Json::value_t::discarded) : value;
}

}  // namespace twohop
