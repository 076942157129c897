// See verbs_hca_list.hpp.
#include "transport/verbs/verbs_hca_list.hpp"

#include <algorithm>
#include <charconv>

namespace twohop::verbs {
namespace {

Error refuse(std::string_view item, std::string_view why) {
  return make_error(twohopInvalidArgument,
                    "TWOHOP_IB_HCA: \"{}\" {}; accepted is [^][=]<device>[:<port>],<device>[:<port>],... with ^ or = "
                    "once, in front of the whole list",
                    item, why);
}

/// The list with its one prefix in front and none later.
std::string right_form(std::string_view prefix, std::string_view list) {
  std::string text(prefix);
  for (bool first = true; !list.empty(); first = false) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    list.remove_prefix(std::min(list.size(), comma + 1));
    item.remove_prefix(std::min(item.size(), item.find_first_not_of("^=")));
    text += fmt::format("{}{}", first ? "" : ",", item);
  }
  return text;
}

bool is_name(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

}  // namespace

Result<HcaList> HcaList::parse(std::string_view text) {
  HcaList list;
  if (text.empty()) return list;
  const std::string_view whole = text;
  if (text.starts_with('^')) {
    list.exclude_ = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('=')) {
    list.exact_ = true;
    text.remove_prefix(1);
  }
  for (bool more = true; more;) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    more = comma < text.size();
    text.remove_prefix(comma + (more ? 1 : 0));
    const size_t colon = std::min(item.find(':'), item.size());
    Item parsed{std::string(item.substr(0, colon)), -1};
    if (item.starts_with('^') || item.starts_with('='))
      return refuse(item, fmt::format("repeats a prefix: write {}",
                                      right_form(whole.substr(0, whole.find_first_not_of("^=")), whole)));
    if (!is_name(parsed.name)) return refuse(item, "is not the name of a device");
    if (colon < item.size()) {
      const std::string_view port = item.substr(colon + 1);
      const auto [end, failure] = std::from_chars(port.data(), port.data() + port.size(), parsed.port);
      if (failure != std::errc() || end != port.data() + port.size() || parsed.port < 1 || parsed.port > 255)
        return refuse(item, "has no port from 1 to 255 after its colon");
    }
    list.items_.push_back(std::move(parsed));
  }
  return list;
}

bool HcaList::matches(const Item& item, std::string_view device, int port) const {
  const bool named = exact_ ? device == item.name : device.starts_with(item.name);
  return named && (item.port < 0 || item.port == port);
}

bool HcaList::allows(std::string_view device, int port) const {
  if (items_.empty()) return true;
  const bool listed =
      std::any_of(items_.begin(), items_.end(), [&](const Item& i) { return matches(i, device, port); });
  return listed != exclude_;
}

std::vector<std::string> HcaList::unmatched(const std::vector<HcaPort>& ports) const {
  std::vector<std::string> names;
  for (const Item& item : items_) {
    if (std::any_of(ports.begin(), ports.end(), [&](const HcaPort& p) { return matches(item, p.device, p.port); }))
      continue;
    names.push_back(item.port < 0 ? item.name : fmt::format("{}:{}", item.name, item.port));
  }
  return names;
}

size_t HcaList::order(std::string_view device, int port) const {
  if (exclude_) return 0;
  const auto it = std::find_if(items_.begin(), items_.end(), [&](const Item& i) { return matches(i, device, port); });
  return static_cast<size_t>(it - items_.begin());
}

}  // namespace twohop::verbs
