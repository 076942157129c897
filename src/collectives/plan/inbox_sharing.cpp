// See inbox_sharing.hpp.
#include "collectives/plan/inbox_sharing.hpp"

#include <map>
#include <set>

namespace twohop {
namespace {

using Tag = uint16_t;
/// Of the links to one peer: by tag, the tags that some algorithm uses beside it, itself included.
using Company = std::map<Tag, std::set<Tag>>;

std::map<int, Company> company_by_peer(const std::vector<std::vector<LinkEnd>>& by_algorithm) {
  std::map<int, Company> found;
  for (const auto& ends : by_algorithm) {
    std::map<int, std::set<Tag>> used;
    for (const LinkEnd& e : ends) used[e.peer].insert(e.tag);
    for (const auto& [peer, tags] : used)
      for (const Tag tag : tags) found[peer][tag].insert(tags.begin(), tags.end());
  }
  return found;
}

/// By tag: the lowest number that no earlier tag of its company has.
std::map<Tag, int> numbers_of(const Company& company) {
  std::map<Tag, int> numbers;
  for (const auto& [tag, beside] : company) {
    std::set<int> taken;
    for (const Tag other : beside)
      if (const auto it = numbers.find(other); it != numbers.end()) taken.insert(it->second);
    int number = 0;
    while (taken.count(number) > 0) ++number;
    numbers[tag] = number;
  }
  return numbers;
}

}  // namespace

std::vector<SharingEnd> share_inboxes(const std::vector<std::vector<LinkEnd>>& by_algorithm) {
  std::vector<SharingEnd> ends;
  for (const auto& [peer, company] : company_by_peer(by_algorithm)) {
    std::map<int, std::vector<Tag>> by_number;
    for (const auto& [tag, number] : numbers_of(company)) by_number[number].push_back(tag);
    for (const auto& [number, tags] : by_number)
      for (const Tag tag : tags) ends.push_back({{tag, peer}, number});
  }
  return ends;
}

}  // namespace twohop
