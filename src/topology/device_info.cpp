// ibv_devinfo, ibstat, ibdev2netdev, show_gids: texts in, ports out.
#include "topology/device_info.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "topology/classify.hpp"
#include "topology/enums.hpp"
#include "topology/finish.hpp"
#include "topology/text.hpp"

namespace twohop::topology {
namespace {

constexpr size_t kMaxBytes = 4U << 20;
constexpr int kMaxPort = 1024;
constexpr double kMaxGbit = 100'000;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

class Parser {
 public:
  std::vector<PortInfo> parse(std::string_view text) {
    for (std::string_view line : lines_of(text)) {
      line = trim(line);
      while (line.starts_with('#')) line = trim(line.substr(1));  // people comment such texts out
      if (!line.empty()) read_line(line);
    }
    std::vector<PortInfo> ports;
    for (const auto& key : order_) ports.push_back(std::move(ports_[key]));
    return ports;
  }

 private:
  void read_line(std::string_view line) {
    if (read_device_line(line) || read_netdev_line(line) || read_gid_line(line)) return;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    read_field(lower(trim(line.substr(0, colon))), trim(line.substr(colon + 1)));
  }

  /// "hca_id: mlx5_0" (ibv_devinfo), "CA 'mlx5_0'" (ibstat)
  bool read_device_line(std::string_view line) {
    if (line.starts_with("hca_id:")) {
      begin_device(trim(line.substr(7)));
      return true;
    }
    if (!line.starts_with("CA '") || !line.ends_with('\'') || line.size() < 6) return false;
    begin_device(line.substr(4, line.size() - 5));
    return true;
  }

  void begin_device(std::string_view name) {
    device_ = name;
    guid_ = 0;
    port_ = nullptr;
  }

  /// "mlx5_0 port 1 ==> eth4 (Down)" (ibdev2netdev)
  bool read_netdev_line(std::string_view line) {
    const std::vector<std::string_view> words = words_of(line);
    const auto arrow = std::find(words.begin(), words.end(), "==>");
    if (arrow == words.end()) return false;
    const auto before = static_cast<size_t>(arrow - words.begin());
    if (before < 3 || words[1] != "port") return true;
    const auto number = parse_int(words[2], 1, kMaxPort);
    if (!number) return true;
    PortInfo& port = port_of(words[0], static_cast<int>(*number));
    if (before + 1 < words.size()) port.interface = words[before + 1];
    if (before + 2 < words.size()) {
      const std::string state = lower(words[before + 2]);
      port.state = state == "(up)" ? LinkState::kActive : state == "(down)" ? LinkState::kDown : port.state;
    }
    return true;
  }

  /// "mlx5_0 1 3 0000:...:022a 192.0.2.42 v2 rdma0" (show_gids)
  bool read_gid_line(std::string_view line) {
    const std::vector<std::string_view> words = words_of(line);
    if (words.size() < 5 || std::count(words[3].begin(), words[3].end(), ':') != 7) return false;
    const auto number = parse_int(words[1], 1, kMaxPort), index = parse_int(words[2], 0, 65535);
    if (!number || !index) return false;
    GidEntry gid;
    gid.index = static_cast<int>(*index);
    gid.gid = words[3];
    size_t at = 4;
    if (words[at].find('.') != std::string_view::npos) gid.ipv4 = words[at++];
    if (at < words.size()) gid.roce_v2 = lower(words[at++]) == "v2";
    if (at < words.size()) gid.interface = words[at];
    PortInfo& port = port_of(words[0], static_cast<int>(*number));
    if (port.interface.empty()) port.interface = gid.interface;
    port.gids.push_back(std::move(gid));
    return true;
  }

  void read_field(const std::string& name, std::string_view value) {
    if (name == "port") {  // ibv_devinfo
      if (const auto number = parse_int(value, 1, kMaxPort); number && !device_.empty())
        begin_port(static_cast<int>(*number));
      return;
    }
    if (name.starts_with("port ") && value.empty()) {  // ibstat
      if (const auto number = parse_int(trim(std::string_view(name).substr(5)), 1, kMaxPort);
          number && !device_.empty())
        begin_port(static_cast<int>(*number));
      return;
    }
    if (name == "sys_image_guid" || name == "system image guid") return set_guid(value, true);
    if (name == "node_guid" || name == "node guid") return set_guid(value, false);
    if (port_ != nullptr) read_port_field(name, value);
  }

  void begin_port(int number) {
    port_ = &port_of(device_, number);
    port_->guid = guid_;
  }

  /// The image's guid is the card's; the node's stands in for it where that is missing or zero.
  void set_guid(std::string_view text, bool of_card) {
    std::string digits;
    for (const char c : text)
      if (c != ':') digits += c;
    const uint64_t guid = digits.size() <= 18 ? parse_hex(digits).value_or(0) : 0;
    if (guid != 0 && (of_card || guid_ == 0)) guid_ = guid;
  }

  void read_port_field(const std::string& name, std::string_view value) {
    const std::string text = lower(value);
    if (name == "state") {
      const bool active = text.starts_with("active") || text.starts_with("port_active");
      port_->state = active ? LinkState::kActive : text.empty() ? port_->state : LinkState::kDown;
    } else if (name == "link_layer" || name == "link layer") {
      if (text == "infiniband") port_->layer = LinkLayer::kInfiniband;
      if (text == "ethernet") port_->layer = LinkLayer::kEthernet;
    } else if (name == "rate") {
      if (const auto rate = leading_number(value); rate && *rate <= kMaxGbit) port_->gbit_per_s = *rate;
    }
  }

  PortInfo& port_of(std::string_view device, int number) {
    const auto [at, is_new] = ports_.try_emplace({std::string(device), number});
    if (is_new) {
      order_.push_back(at->first);
      at->second.device = device;
      at->second.port = number;
    }
    return at->second;
  }

  std::map<std::pair<std::string, int>, PortInfo> ports_;
  std::vector<std::pair<std::string, int>> order_;
  std::string device_;
  uint64_t guid_ = 0;
  PortInfo* port_ = nullptr;
};

void fill(Machine& m, NetPort& net, const PortInfo& info) {
  const auto differs = [&](const char* what, const std::string& known, const std::string& told) {
    add_note(m, Note::Level::kWarning,
             fmt::format("{} port {}: {} is {} in one source and {} in another; {} is used", net.name, net.port, what,
                         known, told, told));
  };
  if (info.state != LinkState::kUnknown) {
    if (net.state != LinkState::kUnknown && net.state != info.state)
      differs("the state", name_of(net.state), name_of(info.state));
    net.state = info.state;
  }
  if (info.layer != LinkLayer::kUnknown) {
    if (net.layer != LinkLayer::kUnknown && net.layer != info.layer)
      differs("the link layer", name_of(net.layer), name_of(info.layer));
    net.layer = info.layer;
  }
  if (info.gbit_per_s > 0) {
    if (net.gbit_per_s > 0 && net.gbit_per_s != info.gbit_per_s)
      differs("the rate", fmt::format("{} Gbit/s", net.gbit_per_s), fmt::format("{} Gbit/s", info.gbit_per_s));
    net.gbit_per_s = info.gbit_per_s;
  }
  if (net.guid == 0) net.guid = info.guid;
  if (net.interface.empty()) net.interface = info.interface;
}

}  // namespace

bool looks_like_device_info(std::string_view text) {
  for (std::string_view line : lines_of(text.substr(0, kMaxBytes))) {
    line = trim(line);
    while (line.starts_with('#')) line = trim(line.substr(1));
    if (line.starts_with("hca_id:") || line.starts_with("CA '") || line.find(" ==> ") != std::string_view::npos)
      return true;
    const std::vector<std::string_view> words = words_of(line);
    if (words.size() >= 4 && words[0] == "DEV" && words[1] == "PORT" && words[2] == "INDEX") return true;
  }
  return false;
}

Result<std::vector<PortInfo>> read_device_info(std::string_view text, const std::string& source) {
  if (text.size() > kMaxBytes)
    return make_error(twohopInvalidArgument, "{}: {} bytes; texts of up to {} bytes are read", source, text.size(),
                      kMaxBytes);
  std::vector<PortInfo> ports = Parser().parse(text);
  if (ports.empty())
    return make_error(
        twohopInvalidArgument,
        "{}: no port of a device; accepted are the texts of ibv_devinfo, ibstat, ibdev2netdev and show_gids", source);
  return ports;
}

void add_device_info(Machine& m, const std::vector<PortInfo>& ports) {
  std::map<std::pair<std::string, int>, size_t> known;
  for (size_t i = 0; i < m.nets.size(); ++i) known.emplace(std::pair(m.nets[i].name, m.nets[i].port), i);
  for (const PortInfo& info : ports) {
    const auto [at, is_new] = known.emplace(std::pair(info.device, info.port), m.nets.size());
    if (is_new) {
      NetPort net;
      net.name = info.device;
      net.port = info.port;
      net.kind = rdma_kind_of_name(net.name).value_or(NetKind::kRdma);
      net.bond = is_bond_name(net.name);
      m.nets.push_back(std::move(net));
    }
    fill(m, m.nets[at->second], info);
  }
}

}  // namespace twohop::topology
