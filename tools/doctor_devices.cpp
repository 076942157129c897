// Are the RDMA devices usable? State and width of their links, GIDs, MTU of their interfaces, counters of trouble.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "doctor.hpp"

namespace twohop::cli {
namespace {

namespace fs = std::filesystem;

struct Trouble {
  const char* counter;
  const char* meaning;
  const char* next;
};
constexpr const char* kLossNext =
    "compare it before and after a run; check PFC/ECN on all switches of the rail, or raise TWOHOP_IB_TIMEOUT";
constexpr const char* kCableNext = "clean or change the cable or transceiver; look at the switch port's own counters";
/// Names of mlx5, rxe, bnxt_re and of the ports of all.
constexpr std::array<Trouble, 18> kTroubles = {{
    {"local_ack_timeout_err", "requests were not answered in time and sent again", kLossNext},
    {"packet_seq_err", "packets were lost on the way to a peer", kLossNext},
    {"out_of_sequence", "packets were lost on the way from a peer", kLossNext},
    {"rnr_nak_retry_err", "peers had no receive posted", "if it grows while twohop runs, please report it"},
    {"implied_nak_seq_err", "replies were lost", kLossNext},
    {"roce_slow_restart", "the device slowed down after losses", kLossNext},
    {"np_cnp_sent", "congestion was signalled to senders", "usual under load; much of it means an overloaded switch"},
    {"rx_icrc_encapsulated", "packets arrived damaged", kCableNext},
    {"req_cqe_error", "requests ended with an error", "look at the kernel's log around failed jobs"},
    {"completer_retry_err", "requests were sent again", kLossNext},
    {"retry_exceeded_err", "connections were given up for want of an answer", kLossNext},
    {"rcvd_seq_err", "packets were lost", kLossNext},
    {"to_retransmits", "requests were not answered in time and sent again", kLossNext},
    {"symbol_error", "the link has bit errors", kCableNext},
    {"link_downed", "the link went down and came back", kCableNext},
    {"link_error_recovery", "the link had to be trained again", kCableNext},
    {"port_rcv_errors", "packets arrived damaged", kCableNext},
    {"port_xmit_discards", "packets were thrown away for congestion", kLossNext},
}};

/// "4: ACTIVE" -> "ACTIVE"
std::string after_colon(const std::string& text) {
  const size_t at = text.find(": ");
  return at == std::string::npos ? text : text.substr(at + 2);
}

uint64_t number(const std::optional<std::string>& text) {
  uint64_t value = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

bool is_empty_gid(const std::string& gid) {
  return gid.find_first_not_of("0:") == std::string::npos;
}

}  // namespace

void Doctor::devices() {
  const std::vector<std::string> names = names_in("sys/class/infiniband");
  if (names.empty())
    return add(Level::kInfo, "RDMA devices", "none", "data between nodes goes over TCP",
               "if this host has an adapter, load its driver (lspci -d 15b3:, dmesg); in a container, share "
               "/sys/class/infiniband and /dev/infiniband with it");
  for (const std::string& name : names) device(name);
  if (names_in("dev/infiniband").empty())
    add(Level::kError, "/dev/infiniband", "missing", "the devices are visible and cannot be opened",
        "load ib_uverbs; in a container pass --device /dev/infiniband");
}

void Doctor::device(const std::string& name) {
  const fs::path folder = fs::path("sys/class/infiniband") / name;
  add(Level::kOk, name,
      fmt::format("{}, firmware {}", line_of(folder / "hca_type").value_or("device"),
                  line_of(folder / "fw_ver").value_or("unknown")));
  for (const std::string& number : names_in(folder / "ports"))
    port(folder / "ports" / number, fmt::format("{}:{}", name, number));
}

void Doctor::port(const fs::path& folder, const std::string& name) {
  const bool infiniband = line_of(folder / "link_layer").value_or("Ethernet") == "InfiniBand";
  link(folder, name, infiniband);
  if (!infiniband) gids(folder, name);
  counters(folder, name);
}

void Doctor::link(const fs::path& folder, const std::string& name, bool infiniband) {
  const std::string state = after_colon(line_of(folder / "state").value_or("unknown"));
  const std::string physical = after_colon(line_of(folder / "phys_state").value_or("unknown"));
  const std::string rate = line_of(folder / "rate").value_or("rate unknown");
  const std::string found =
      fmt::format("{}, {} ({}), {}", infiniband ? "InfiniBand" : "Ethernet", state, physical, rate);
  if (infiniband && state == "INIT")
    return add(Level::kError, name, found, "no subnet manager has set the port up",
               "start opensm, or ask for the fabric's");
  if (state != "ACTIVE")
    return add(Level::kWarning, name, found, "the port is not used as a rail",
               infiniband ? "check cable and switch" : "check cable and switch; `ip link set DEV up`");
  const bool narrow = rate.find("(1X") != std::string::npos || rate.find("(2X") != std::string::npos;
  if (infiniband && narrow)
    return add(Level::kWarning, name, found, "the link runs on fewer lanes than cables have",
               "reseat or change the cable");
  add(Level::kOk, name, found);
}

void Doctor::gids(const fs::path& folder, const std::string& name) {
  size_t v2 = 0, all = 0, ipv4 = 0;
  std::set<std::string> interfaces;
  for (const std::string& index : names_in(folder / "gids")) {
    const std::string gid = line_of(folder / "gids" / index).value_or("");
    if (is_empty_gid(gid)) continue;
    ++all;
    const bool is_v2 = line_of(folder / "gid_attrs/types" / index).value_or("") == "RoCE v2";
    v2 += is_v2;
    ipv4 += is_v2 && gid.starts_with("0000:0000:0000:0000:0000:ffff:");
    if (const auto interface = line_of(folder / "gid_attrs/ndevs" / index)) interfaces.insert(*interface);
  }
  const std::string check = name + " GIDs", found = fmt::format("{}, of RoCE v2 {}, with IPv4 {}", all, v2, ipv4);
  if (all == 0)
    add(Level::kError, check, found, "no connection can be made over it", "give its network interface an address");
  else if (v2 == 0)
    add(Level::kWarning, check, found, "only RoCE v1, which is not routed: peers must be in the same layer-2 network",
        "enable RoCE v2 (cma_roce_mode, or the switch), or set TWOHOP_IB_ROCE_VERSION_NUM=1 on all ranks");
  else if (ipv4 == 0)
    add(Level::kInfo, check, found, "peers are reached over IPv6, which all hosts of the rail then need",
        "give the interface an IPv4 address where other hosts have one");
  else
    add(Level::kOk, check, found);
  for (const std::string& interface : interfaces) interface_of(interface, name);
}

void Doctor::interface_of(const std::string& interface, const std::string& name) {
  const auto mtu = line_of(fs::path("sys/class/net") / interface / "mtu");
  const std::string check = fmt::format("{} MTU", name);
  if (!mtu)
    return add(Level::kWarning, check, fmt::format("interface {} is not here", interface),
               "its GIDs cannot be used from this network namespace",
               "give the container the interface, or exclude the device by TWOHOP_IB_HCA=^...");
  // 4096 bytes of payload and RoCE's headers.
  const std::string found = fmt::format("{} has {}", interface, *mtu);
  if (number(mtu) < 4200)
    return add(Level::kWarning, check, found, "RDMA packets carry at most 1024 or 2048 bytes",
               fmt::format("ip link set {} mtu 9000, on both ends and the switches between", interface));
  add(Level::kOk, check, found);
}

void Doctor::counters(const fs::path& folder, const std::string& name) {
  bool any = false;
  for (const char* kind : {"hw_counters", "counters"})
    for (const Trouble& t : kTroubles) {
      const uint64_t value = number(line_of(folder / kind / t.counter));
      if (value == 0) continue;
      any = true;
      add(Level::kWarning, fmt::format("{} {}", name, t.counter), fmt::format("{} since the host started", value),
          t.meaning, t.next);
    }
  if (!any) add(Level::kOk, name + " counters", "no trouble counted");
}

}  // namespace twohop::cli
