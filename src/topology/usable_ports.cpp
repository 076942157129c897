// See usable_ports.hpp.
#include "topology/usable_ports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>

namespace twohop::topology {
namespace {

/// Ports within this of the fastest are of its class: 180 and 200 Gbit/s are, 100 and 200 are not.
constexpr double kSameSpeed = 0.75;
/// PCI links that differ by more than this tell apart models of cards whose port speed is not known.
constexpr double kSamePciLink = 0.55;

constexpr uint16_t kMellanox = 0x15b3;

/// One port that nothing speaks against so far.
struct Candidate {
  int net = kNone;
  LinkLayer layer = LinkLayer::kUnknown;
  double speed = 0;
};

const PciNode* pci_of(const Machine& m, const NetPort& port) {
  return port.pci == kNone ? nullptr : &m.pci[port.pci];
}

double pci_gbit_per_s(const PciNode* node) {
  if (!node) return 0;
  const double coding = node->gt_per_s > 6 ? 128.0 / 130 : 0.8;
  return node->gt_per_s * node->width * coding;
}

}  // namespace

bool same_card(const Machine& m, const NetPort& a, const NetPort& b) {
  if (a.guid != 0 && b.guid != 0) return a.guid == b.guid;
  const PciNode *x = pci_of(m, a), *y = pci_of(m, b);
  if (!x || !y) return false;
  if (a.pci == b.pci) return true;
  return x->bus.domain == y->bus.domain && x->bus.bus == y->bus.bus && x->bus.device == y->bus.device;
}

namespace {

/// A virtual function: by its device number where the vendor gives those their own, else by its place, for which more
/// ports than a card can have would be needed.
bool is_virtual_function(const PciNode& node) {
  constexpr uint16_t kMellanoxVirtual[] = {0x1004, 0x1014, 0x1016, 0x1018, 0x101a, 0x101c, 0x101e};
  if (node.vendor != kMellanox) return false;
  return std::find(std::begin(kMellanoxVirtual), std::end(kMellanoxVirtual), node.device) != std::end(kMellanoxVirtual);
}

std::string bond_of(const Machine& m, const NetPort& port) {
  if (port.bond) return {};
  for (const NetPort& other : m.nets) {
    if (!other.bond || &other == &port) continue;
    const auto is = [&](const std::string& slave) { return slave == port.name || slave == port.interface; };
    if (std::any_of(other.slaves.begin(), other.slaves.end(), is)) return other.name;
    const bool rdma_both = other.kind == NetKind::kRdma && port.kind == NetKind::kRdma;
    if (rdma_both && same_card(m, port, other)) return other.name;
  }
  return {};
}

/// The physical function beside which `port` is only a further view of the same wire.
std::string twin_of(const Machine& m, size_t index) {
  const NetPort& port = m.nets[index];
  const PciNode* node = pci_of(m, port);
  for (size_t o = 0; node && o < m.nets.size(); ++o) {
    const NetPort& other = m.nets[o];
    const PciNode* theirs = pci_of(m, other);
    if (o == index || !theirs || other.kind != port.kind || other.bond) continue;
    const bool one_bus = theirs->bus.domain == node->bus.domain && theirs->bus.bus == node->bus.bus;
    const bool guids_differ = port.guid != 0 && other.guid != 0 && port.guid != other.guid;
    if (guids_differ || other.state == LinkState::kDown) continue;
    const bool one_card = one_bus || (port.guid != 0 && port.guid == other.guid);
    if (one_card && is_virtual_function(*node) && !is_virtual_function(*theirs)) return other.name;
    // A sub-function: a second device on the PCI function and port of the first.
    const bool same_port = port.pci == other.pci && port.port == other.port && port.name != other.name;
    if (same_port && port.guid != 0 && o < index) return other.name;
  }
  return {};
}

/// "mlx5_0+mlx5_1", a virtual NIC of NCCL's: no device that can be opened, where its parts are listed too.
bool is_merged_view(const Machine& m, const NetPort& port) {
  const size_t plus = port.name.find('+');
  if (plus == std::string::npos) return false;
  const std::string first = port.name.substr(0, plus);
  return std::any_of(m.nets.begin(), m.nets.end(), [&](const NetPort& other) { return other.name == first; });
}

std::string why_never(const Machine& m, size_t index) {
  const NetPort& port = m.nets[index];
  switch (port.kind) {
    case NetKind::kVirtual:
      return "virtual interface (bridge, veth, tunnel, vlan): never a rail, whatever speed it claims";
    case NetKind::kWireless:
      return "wireless: used only if named in TWOHOP_SOCKET_IFNAME";
    case NetKind::kPhysical:
      return "no RDMA: TCP can use it";
    case NetKind::kRdma:
    case NetKind::kOtherRdma:
      break;
  }
  if (is_merged_view(m, port)) return "NCCL's merged view of ports that are listed themselves";
  if (port.state == LinkState::kDown) return "link is down: state decides, not rate; check cable and switch";
  if (std::string bond = bond_of(m, port); !bond.empty())
    return fmt::format("part of bond {}, which is used instead", bond);
  if (std::string twin = twin_of(m, index); !twin.empty())
    return fmt::format("shares the port of {}: a second function of one card adds no bandwidth", twin);
  return {};
}

const char* layer_name(LinkLayer layer) {
  if (layer == LinkLayer::kInfiniband) return "InfiniBand";
  return layer == LinkLayer::kEthernet ? "RoCE" : "unknown link layer";
}

std::string speed_text(double gbit_per_s) {
  return gbit_per_s >= 1 ? fmt::format("{:.0f}G", gbit_per_s) : fmt::format("{:.0f}M", gbit_per_s * 1000);
}

/// The ports of one speed class and what they carry together.
struct SpeedClass {
  double fastest = 0, total = 0;
};

/// Most bandwidth in all wins, the faster of two equals: one odd port does not outvote the eight that were bought.
SpeedClass best_speed(const std::vector<Candidate>& candidates) {
  SpeedClass best;
  for (const Candidate& leader : candidates) {
    SpeedClass c{leader.speed, 0};
    for (const Candidate& member : candidates)
      if (member.speed <= c.fastest && member.speed >= kSameSpeed * c.fastest) c.total += member.speed;
    if (std::tie(c.total, c.fastest) > std::tie(best.total, best.fastest)) best = c;
  }
  return best;
}

/// Keeps one link layer: the one with more bandwidth, then more ports, then InfiniBand. Ports of unknown layer stay.
void keep_one_layer(std::vector<Candidate>& candidates, UsablePorts& out) {
  auto weight = [&](LinkLayer layer) {
    std::vector<Candidate> of_layer;
    std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(of_layer),
                 [&](const Candidate& c) { return c.layer == layer; });
    return std::tuple(best_speed(of_layer).total, of_layer.size());
  };
  const auto infiniband = weight(LinkLayer::kInfiniband), ethernet = weight(LinkLayer::kEthernet);
  if (std::get<1>(infiniband) == 0 || std::get<1>(ethernet) == 0) return;
  // Speeds that only one side states are no ground for a choice.
  const bool comparable = std::get<0>(infiniband) > 0 && std::get<0>(ethernet) > 0;
  const bool take_ethernet = comparable ? ethernet > infiniband : std::get<1>(ethernet) > std::get<1>(infiniband);
  const LinkLayer dropped = take_ethernet ? LinkLayer::kInfiniband : LinkLayer::kEthernet;
  const LinkLayer kept = take_ethernet ? LinkLayer::kEthernet : LinkLayer::kInfiniband;
  std::erase_if(candidates, [&](const Candidate& c) {
    if (c.layer != dropped) return false;
    out.rejected.push_back({c.net, fmt::format("{}: rails here are {}, and the two are never mixed",
                                               layer_name(dropped), layer_name(kept))});
    return true;
  });
}

void keep_one_speed(std::vector<Candidate>& candidates, UsablePorts& out) {
  const SpeedClass best = best_speed(candidates);
  std::erase_if(candidates, [&](const Candidate& c) {
    if (c.speed == 0) return false;
    const double ratio = c.speed / best.fastest;
    if (ratio >= kSameSpeed && ratio <= 1) return false;
    const char* how = ratio < 1 ? "slower" : "alone with its speed, other";
    out.rejected.push_back({c.net, fmt::format("{}: {} than the {} ports that are rails", speed_text(c.speed), how,
                                               speed_text(best.fastest))});
    return true;
  });
}

/// Where no speed is known, a card of another model on a much thinner PCI link is not of the same class.
void drop_thin_cards(const Machine& m, std::vector<Candidate>& candidates, UsablePorts& out) {
  double widest = 0;
  const PciNode* of_widest = nullptr;
  for (const Candidate& c : candidates) {
    if (c.speed > 0) return;
    const PciNode* node = pci_of(m, m.nets[c.net]);
    if (pci_gbit_per_s(node) > widest) widest = pci_gbit_per_s(node), of_widest = node;
  }
  std::erase_if(candidates, [&](const Candidate& c) {
    const PciNode* node = pci_of(m, m.nets[c.net]);
    const double link = pci_gbit_per_s(node);
    if (link == 0 || link >= kSamePciLink * widest || node->device == of_widest->device) return false;
    out.rejected.push_back({c.net, fmt::format("another model on a PCI link of {}, where others have {}",
                                               speed_text(link), speed_text(widest))});
    return true;
  });
}

/// Candidates of one kind, in natural order of their names.
std::vector<Candidate> candidates_of(const Machine& m, const std::vector<int>& nets, NetKind kind) {
  std::vector<Candidate> candidates;
  for (int n : nets)
    if (m.nets[n].kind == kind) candidates.push_back({n, layer_of(m, m.nets[n]), m.nets[n].gbit_per_s});
  std::stable_sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    const NetPort &x = m.nets[a.net], &y = m.nets[b.net];
    return x.name == y.name ? x.port < y.port : natural_less(x.name, y.name);
  });
  return candidates;
}

std::vector<int> sockets_of(const Machine& m) {
  std::vector<int> sockets;
  for (size_t n = 0; n < m.nets.size(); ++n) {
    const NetPort& port = m.nets[n];
    if (port.kind == NetKind::kPhysical && port.state != LinkState::kDown && bond_of(m, port).empty())
      sockets.push_back(static_cast<int>(n));
  }
  return sockets;
}

}  // namespace

bool natural_less(const std::string& a, const std::string& b) {
  // Bus ids are hexadecimal and of one width.
  if (a.find(':') != std::string::npos && b.find(':') != std::string::npos) return a < b;
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const auto end_of = [&](const std::string& s, size_t k) {
        while (k < s.size() && digit(s[k])) ++k;
        return k;
      };
      const auto skip_zeros = [&](const std::string& s, size_t k) {
        while (k + 1 < s.size() && s[k] == '0' && digit(s[k + 1])) ++k;
        return k;
      };
      i = skip_zeros(a, i), j = skip_zeros(b, j);
      const size_t x = end_of(a, i), y = end_of(b, j);
      if (x - i != y - j) return x - i < y - j;
      if (const int order = a.compare(i, x - i, b, j, y - j); order != 0) return order < 0;
      i = x, j = y;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

std::string port_name(const Machine& m, int net) {
  const NetPort& port = m.nets[net];
  const auto others =
      std::count_if(m.nets.begin(), m.nets.end(), [&](const NetPort& p) { return p.name == port.name; });
  return others > 1 ? fmt::format("{}:{}", port.name, port.port) : port.name;
}

LinkLayer layer_of(const Machine& m, const NetPort& port) {
  if (port.layer != LinkLayer::kUnknown) return port.layer;
  if (const PciNode* node = pci_of(m, port)) {
    if (node->pci_class >> 8 == 0x0207) return LinkLayer::kInfiniband;
    if (node->pci_class >> 8 == 0x0200) return LinkLayer::kEthernet;
  }
  if (port.name.starts_with("roce")) return LinkLayer::kEthernet;
  if (port.name.starts_with("ibp") || port.name.starts_with("ibs")) return LinkLayer::kInfiniband;
  return LinkLayer::kUnknown;
}

UsablePorts find_usable_ports(const Machine& m) {
  UsablePorts out;
  std::vector<int> left;
  for (size_t n = 0; n < m.nets.size(); ++n) {
    std::string reason = why_never(m, n);
    if (reason.empty())
      left.push_back(static_cast<int>(n));
    else
      out.rejected.push_back({static_cast<int>(n), std::move(reason)});
  }
  std::vector<Candidate> candidates = candidates_of(m, left, NetKind::kRdma);
  std::vector<Candidate> others = candidates_of(m, left, NetKind::kOtherRdma);
  out.verbs = !candidates.empty() || others.empty();
  if (candidates.empty()) candidates.swap(others);
  for (const Candidate& c : others)
    out.rejected.push_back(
        {c.net, "RDMA, but verbs cannot use it (it needs its own provider), and verbs ports are here"});
  keep_one_layer(candidates, out);
  keep_one_speed(candidates, out);
  drop_thin_cards(m, candidates, out);
  for (const Candidate& c : candidates) out.ports.push_back(c.net);
  out.sockets = sockets_of(m);
  return out;
}

}  // namespace twohop::topology
