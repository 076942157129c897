// See cluster_rails.hpp.
#include "topology/cluster_rails.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "topology/fingerprint.hpp"

namespace twohop::topology {
namespace {

constexpr size_t kMaxHostsNamed = 4;

/// "a, b, c, d and 3 more".
std::string host_list(const std::vector<std::string>& hosts) {
  std::string text;
  for (size_t i = 0; i < std::min(hosts.size(), kMaxHostsNamed); ++i) text += (i ? ", " : "") + hosts[i];
  if (hosts.size() > kMaxHostsNamed) text += fmt::format(" and {} more", hosts.size() - kMaxHostsNamed);
  return text;
}

/// The places of `rails` in `model`, when all are there by name and in the same order.
std::optional<std::vector<int>> places_by_name(const std::vector<std::string>& rails,
                                               const std::vector<std::string>& model) {
  std::vector<int> places;
  auto from = model.begin();
  for (const std::string& name : rails) {
    const auto it = std::find(from, model.end(), name);
    if (it == model.end()) return std::nullopt;
    places.push_back(static_cast<int>(it - model.begin()));
    from = it + 1;
  }
  return places;
}

std::string why_missing(const NodeSummary& node, const std::string& port) {
  for (size_t i = 0; i < node.rejected_ports.size() && i < node.rejected_reasons.size(); ++i)
    if (node.rejected_ports[i] == port) return node.rejected_reasons[i];
  return "no such port there";
}

class Numbering {
 public:
  explicit Numbering(std::span<const NodeSummary> nodes) : nodes_(nodes) {}

  ClusterRails run() {
    if (nodes_.empty()) return {};
    // The first of the nodes with most rails is what the others are compared with.
    model_ = &*std::max_element(nodes_.begin(), nodes_.end(), [](const NodeSummary& a, const NodeSummary& b) {
      return a.rails.size() < b.rails.size();
    });
    out_.count = static_cast<int>(model_->rails.size());
    for (const NodeSummary& node : nodes_) place(node);
    for (const auto& [text, hosts] : by_finding_)
      out_.findings.push_back(fmt::format("{}: {}", host_list(hosts), text));
    mixed_machines();
    return std::move(out_);
  }

 private:
  void place(const NodeSummary& node) {
    auto places = places_by_name(node.rails, model_->rails);
    if (!places) {
      places.emplace();
      for (size_t i = 0; i < node.rails.size(); ++i) places->push_back(static_cast<int>(i));
      note(node, fmt::format("ports have other names than on {}; rails are numbered along the GPUs", model_->host));
      if (node.rails.size() < model_->rails.size())
        note(node, fmt::format("{} rails where {} has {}: rails {} to {} of the job are missing", node.rails.size(),
                               model_->host, model_->rails.size(), node.rails.size(), model_->rails.size() - 1));
    } else {
      missing(node, *places);
    }
    speeds(node, *places);
    out_.number.push_back(std::move(*places));
  }

  void missing(const NodeSummary& node, const std::vector<int>& places) {
    for (size_t r = 0; r < model_->rails.size(); ++r)
      if (!std::binary_search(places.begin(), places.end(), static_cast<int>(r)))
        note(node,
             fmt::format("rail {} ({}) is missing: {}", r, model_->rails[r], why_missing(node, model_->rails[r])));
  }

  void speeds(const NodeSummary& node, const std::vector<int>& places) {
    for (size_t i = 0; i < places.size() && i < node.gbit_per_s.size(); ++i) {
      const auto place = static_cast<size_t>(places[i]);
      if (place >= model_->gbit_per_s.size()) continue;
      const double here = node.gbit_per_s[i], there = model_->gbit_per_s[place];
      if (here > 0 && there > 0 && here != there)
        note(node, fmt::format("rail {} has {:g} Gbit/s where {} has {:g}: the slower end decides", place, here,
                               model_->host, there));
    }
  }

  void mixed_machines() {
    std::map<std::pair<std::string, std::string>, std::vector<std::string>> kinds;
    for (const NodeSummary& node : nodes_) kinds[{node.fingerprint, node.summary}].push_back(node.host);
    if (kinds.size() < 2) return;
    std::vector<std::string> texts;
    for (const auto& [kind, hosts] : kinds) texts.push_back(fmt::format("{} ({})", host_list(hosts), kind.second));
    out_.findings.push_back(fmt::format("{} kinds of machines in one job: {}", kinds.size(), fmt::join(texts, "; ")));
  }

  /// Hosts with the same finding are named together.
  void note(const NodeSummary& node, const std::string& text) {
    const auto same = [&](const auto& entry) { return entry.first == text; };
    auto it = std::find_if(by_finding_.begin(), by_finding_.end(), same);
    if (it == by_finding_.end()) it = by_finding_.insert(by_finding_.end(), {text, {}});
    it->second.push_back(node.host);
  }

  std::span<const NodeSummary> nodes_;
  const NodeSummary* model_ = nullptr;
  std::vector<std::pair<std::string, std::vector<std::string>>> by_finding_;
  ClusterRails out_;
};

}  // namespace

NodeSummary summarize(const Machine& m, const RailChoice& choice, std::string host) {
  NodeSummary s;
  s.host = std::move(host);
  const Fingerprint mark = fingerprint(m);
  s.fingerprint = fmt::format("{:016x}", mark.hash);
  s.summary = mark.summary;
  for (const Rail& rail : choice.rails) {
    s.rails.push_back(port_name(m, rail.net));
    s.gbit_per_s.push_back(m.nets[rail.net].gbit_per_s);
  }
  for (const RejectedPort& r : choice.rejected) {
    s.rejected_ports.push_back(port_name(m, r.net));
    s.rejected_reasons.push_back(r.reason);
  }
  return s;
}

ClusterRails number_rails(std::span<const NodeSummary> nodes) {
  return Numbering(nodes).run();
}

}  // namespace twohop::topology
