// `twohop topo` for people: tree, matrix, rails, what was rejected, warnings.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "topo_report.hpp"
#include "topo_tree.hpp"
#include "topology/enums.hpp"

namespace twohop::cli {

using namespace topology;

std::string gpu_list(const TopoReport& r, const std::vector<int>& gpus) {
  std::vector<std::string> names;
  for (int g : gpus) names.push_back(r.machine.gpus[g].name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string rail_list(const TopoReport& r, const std::vector<int>& rails) {
  std::vector<std::string> names;
  for (int n : rails) names.push_back(port_name(r.machine, r.choice.rails[n].net));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string speed_text(double gbit_per_s) {
  return gbit_per_s > 0 ? fmt::format("{:g} Gbit/s", gbit_per_s) : "";
}

std::string links_text(const Machine& m, int gpu) {
  std::map<std::string, int> counts;
  for (const GpuLink& l : m.links) {
    if (l.gpu != gpu) continue;
    const char* kind = l.kind == GpuLinkKind::kXgmi ? "xGMI" : l.kind == GpuLinkKind::kC2c ? "C2C" : "NVLink";
    counts[fmt::format("{}{}", kind, l.to_switch ? " to switches" : "")] += l.count;
  }
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(fmt::format("{} x {}", count, name));
  return fmt::format("{}", fmt::join(parts, ", "));
}

const Rail* rail_of(const TopoReport& r, int net) {
  const auto it =
      std::find_if(r.choice.rails.begin(), r.choice.rails.end(), [net](const Rail& x) { return x.net == net; });
  return it == r.choice.rails.end() ? nullptr : &*it;
}

namespace {

std::string join_present(std::vector<std::string> parts, const char* separator = ", ") {
  std::erase(parts, "");
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string gpu_line(const TopoReport& r, int g) {
  const Gpu& gpu = r.machine.gpus[g];
  return join_present({gpu.name, gpu.model, links_text(r.machine, g)});
}

std::string net_line(const TopoReport& r, int n) {
  const NetPort& port = r.machine.nets[n];
  const char* layer = port.layer == LinkLayer::kUnknown      ? ""
                      : port.layer == LinkLayer::kInfiniband ? "InfiniBand"
                                                             : "Ethernet";
  const Rail* rail = rail_of(r, n);
  return join_present({port_name(r.machine, n), speed_text(port.gbit_per_s), port.kind == NetKind::kRdma ? layer : "",
                       port.state == LinkState::kDown ? "down" : "", rail ? fmt::format("rail {}", rail->number) : ""});
}

void draw(const TopoReport& r, const TreeNode& node, const std::string& indent, std::string& out) {
  for (size_t i = 0; i < node.children.size(); ++i) {
    const TreeNode& child = node.children[i];
    const bool last = i + 1 == node.children.size();
    std::vector<std::string> parts = {child.title};
    for (int g : child.gpus) parts.push_back(gpu_line(r, g));
    for (int n : child.nets) parts.push_back(net_line(r, n));
    out += fmt::format("{}{}{}\n", indent, last ? "`- " : "|- ", join_present(parts, "  "));
    draw(r, child, indent + (last ? "   " : "|  "), out);
  }
}

/// Columns as wide as their widest cell, two spaces apart.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> width;
  for (const auto& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t c = 0; c < row.size(); ++c) line += fmt::format(" {:<{}} ", row[c], width[c]);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string cell(const Path& path) {
  return path.known ? name_of(path.kind) : "?";
}

/// Ports that some GPU could want; virtual interfaces would only fill the page.
std::vector<int> shown_ports(const TopoReport& r) {
  std::vector<int> ports;
  for (size_t n = 0; n < r.machine.nets.size(); ++n)
    if (r.machine.nets[n].kind == NetKind::kRdma || r.machine.nets[n].kind == NetKind::kOtherRdma)
      ports.push_back(static_cast<int>(n));
  if (ports.empty()) return r.choice.sockets;
  return ports;
}

std::string path_matrix(const TopoReport& r) {
  const std::vector<int> ports = shown_ports(r);
  if (ports.empty() || r.machine.gpus.empty()) return {};
  std::vector<std::vector<std::string>> rows(1, {""});
  for (int n : ports) rows[0].push_back(port_name(r.machine, n));
  for (int g : by_index(r.machine)) {
    auto& row = rows.emplace_back(std::vector<std::string>{r.machine.gpus[g].name});
    for (int n : ports) {
      const Rail* rail = rail_of(r, n);
      const bool uses = rail && std::find(rail->gpus.begin(), rail->gpus.end(), g) != rail->gpus.end();
      row.push_back(cell(r.paths.gpu_net[g][n]) + (uses ? "*" : ""));
    }
  }
  return "\nGPU to port (* uses it; PIX one PCI switch, PXB several, PHB host bridge, NODE NUMA node, SYS beyond)\n" +
         table(rows);
}

std::string gpu_matrix(const TopoReport& r) {
  if (r.machine.gpus.size() < 2) return {};
  std::vector<std::vector<std::string>> rows(1, {""});
  for (int g : by_index(r.machine)) rows[0].push_back(r.machine.gpus[g].name);
  for (int g : by_index(r.machine)) {
    auto& row = rows.emplace_back(std::vector<std::string>{r.machine.gpus[g].name});
    for (int o : by_index(r.machine)) {
      const Path& path = r.paths.gpu_gpu[g][o];
      row.push_back(g == o ? "X" : path.kind == PathClass::kNvl ? fmt::format("NV{}", path.nvlinks) : cell(path));
    }
  }
  return "\nGPU to GPU (NV: links of NVLink or xGMI)\n" + table(rows);
}

std::string rails(const TopoReport& r) {
  std::string out = fmt::format("\nrails: {}{}\n", r.choice.rails.size(),
                                r.choice.rails.empty() || r.choice.verbs ? "" : ", none of them usable over verbs");
  std::vector<std::vector<std::string>> rows;
  for (const Rail& rail : r.choice.rails)
    rows.push_back({fmt::format("{}", rail.number), port_name(r.machine, rail.net),
                    speed_text(r.machine.nets[rail.net].gbit_per_s), rail.reason});
  out += table(rows);
  if (!r.choice.sockets.empty() && r.choice.rails.empty()) {
    std::vector<std::string> names;
    for (int n : r.choice.sockets) names.push_back(port_name(r.machine, n));
    out += fmt::format("sockets: {}\n", fmt::join(names, ", "));
  }
  return out;
}

std::string assignment(const TopoReport& r) {
  if (r.machine.gpus.empty()) return {};
  std::vector<std::vector<std::string>> rows;
  for (int g : by_index(r.machine)) {
    const GpuRails& a = r.choice.assignment[g];
    rows.push_back({r.machine.gpus[g].name, a.rails.empty() ? "-" : rail_list(r, a.rails), a.reason});
  }
  return "\nassignment\n" + table(rows);
}

std::string rejected(const TopoReport& r) {
  if (r.choice.rejected.empty()) return {};
  std::vector<std::vector<std::string>> rows;
  for (const RejectedPort& p : r.choice.rejected) rows.push_back({port_name(r.machine, p.net), p.reason});
  return "\nnot rails\n" + table(rows);
}

std::string lines(const char* title, const std::vector<std::string>& texts) {
  if (texts.empty()) return {};
  std::string out = fmt::format("\n{}\n", title);
  for (const std::string& text : texts) out += fmt::format("  {}\n", text);
  return out;
}

}  // namespace

std::string topo_text(const TopoReport& r, bool explain) {
  const Machine& m = r.machine;
  std::string out = fmt::format("{} ({}): {} NUMA nodes, {} GPUs, {} ports\n\n", m.source, name_of(m.kind),
                                m.numas.size(), m.gpus.size(), m.nets.size());
  for (const TreeNode& numa : display_tree(m)) {
    out += numa.title + "\n";
    draw(r, numa, "", out);
  }
  out += path_matrix(r);
  if (explain) out += gpu_matrix(r);
  out += rails(r) + assignment(r) + rejected(r) + lines("warnings", r.choice.warnings);
  if (explain) out += lines("notes", r.choice.notes);
  return out;
}

}  // namespace twohop::cli
