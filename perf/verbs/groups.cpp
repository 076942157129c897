// See groups.hpp.
#include "groups.hpp"

#include <algorithm>
#include <map>

namespace twohop::verbs_perf {

std::vector<Group> group_repeats(const std::vector<RowResult>& rows) {
  std::vector<Group> groups;
  std::vector<std::vector<double>> speeds;
  std::map<std::string, size_t> known;
  for (const RowResult& r : rows) {
    const auto [at, fresh] = known.emplace(configuration(r.row), groups.size());
    if (fresh) {
      groups.push_back({&r});
      speeds.emplace_back();
    }
    Group& g = groups[at->second];
    ++g.repeats;
    g.retries += r.retries().value_or(0);
    speeds[at->second].push_back(r.average_mib_per_s());
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    std::vector<double>& s = speeds[i];
    std::sort(s.begin(), s.end());
    const size_t n = s.size();
    groups[i].median_mib_per_s = n % 2 ? s[n / 2] : (s[n / 2 - 1] + s[n / 2]) / 2;
    if (groups[i].median_mib_per_s > 0) groups[i].spread = (s.back() - s.front()) / groups[i].median_mib_per_s;
  }
  return groups;
}

std::vector<const Factor*> differing(const RowSpec& a, const RowSpec& b) {
  std::vector<const Factor*> all;
  for (const Factor& f : factors())
    if (f.value(a) != f.value(b)) all.push_back(&f);
  return all;
}

}  // namespace twohop::verbs_perf
