// How is SOFTNIC="devices=2,rate=10g,..." read? Every bad word is refused with what would be accepted.
#include "softnic/settings.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>

namespace softnic {
namespace {

struct Unit {
  std::string_view suffix;
  double factor;
};

constexpr Unit kRateUnits[] = {{"g", 1e9}, {"m", 1e6}, {"k", 1e3}};
constexpr Unit kTimeUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
constexpr Unit kSizeUnits[] = {{"k", 1024}, {"m", 1024 * 1024}, {"g", 1024.0 * 1024 * 1024}};
constexpr Unit kShare[] = {{"%", 0.01}, {"", 1}};

// A number with one of the units behind it.
template <size_t N>
bool read_number(std::string_view text, const Unit (&units)[N], double max, double* value) {
  double number = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{}) return false;
  std::string_view suffix = text.substr(static_cast<size_t>(end - text.data()));
  for (const Unit& unit : units)
    if (suffix == unit.suffix) {
      *value = number * unit.factor;
      return *value >= 0 && *value <= max;
    }
  return false;
}

template <size_t N, typename T>
bool read_into(std::string_view text, const Unit (&units)[N], double max, T* value) {
  double number = 0;
  if (!read_number(text, units, max, &number)) return false;
  *value = static_cast<T>(number);
  return true;
}

bool read_whole(std::string_view text, uint64_t min, uint64_t max, uint64_t* value) {
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return status == std::errc{} && end == text.data() + text.size() && *value >= min && *value <= max;
}

std::string_view take(std::string_view* rest, char separator) {
  size_t at = rest->find(separator);
  std::string_view word = rest->substr(0, at);
  rest->remove_prefix(at == std::string_view::npos ? rest->size() : at + 1);
  return word;
}

bool read_device(std::string_view text, unsigned* device) {
  uint64_t number = 0;
  if (!text.starts_with("dev") || !read_whole(text.substr(3), 0, kMaxDevices - 1, &number)) return false;
  *device = static_cast<unsigned>(number);
  return true;
}

bool read_port_change(std::string_view text, bool up, Settings* out) {
  PortChange change{0, up, 0};
  std::string_view device = take(&text, '@');
  if (!read_device(device, &change.device) || !read_into(text, kTimeUnits, 1e15, &change.at_ns)) return false;
  out->port_changes.push_back(change);
  return true;
}

struct StatusName {
  std::string_view name;
  ibv_wc_status status;
};
constexpr StatusName kStatuses[] = {
    {"LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR},
    {"LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR},
    {"LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR},
    {"WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR},
    {"BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR},
    {"LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR},
    {"REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR},
    {"REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR},
    {"REM_OP_ERR", IBV_WC_REM_OP_ERR},
    {"RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR},
    {"RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR},
    {"REM_ABORT_ERR", IBV_WC_REM_ABORT_ERR},
    {"FATAL_ERR", IBV_WC_FATAL_ERR},
    {"GENERAL_ERR", IBV_WC_GENERAL_ERR},
};

bool read_fault_point(std::string_view text, FaultPoint* point) {
  constexpr std::array<std::string_view, 5> names = {"qp-send", "write", "send", "read", "atomic"};
  for (size_t i = 0; i < names.size(); i++)
    if (names[i] == text) {
      *point = static_cast<FaultPoint>(i);
      return true;
    }
  return false;
}

bool read_fault(std::string_view text, Settings* out) {
  Fault fault{};
  if (!read_device(take(&text, ':'), &fault.device) || !read_fault_point(take(&text, ':'), &fault.point) ||
      !read_whole(take(&text, ':'), 1, UINT64_MAX, &fault.nth))
    return false;
  const std::string_view status = take(&text, ':');
  if (!text.empty() && text != "done") return false;
  fault.done = text == "done";
  for (const StatusName& known : kStatuses)
    if (known.name == status) {
      fault.status = known.status;
      out->faults.push_back(fault);
      return true;
    }
  return false;
}

bool read_corruption(std::string_view text, Settings* out) {
  Corruption corruption{};
  if (!read_device(take(&text, ':'), &corruption.device) || take(&text, ':') != "write" ||
      !read_whole(text, 1, UINT64_MAX, &corruption.nth))
    return false;
  out->corruptions.push_back(corruption);
  return true;
}

bool read_starvation(std::string_view text, Settings* out) {
  Starvation starvation{};
  if (!read_device(take(&text, ':'), &starvation.device) || take(&text, ':') != "recv" ||
      !read_whole(text, 1, UINT64_MAX, &starvation.nth))
    return false;
  out->starvations.push_back(starvation);
  return true;
}

bool read_mtu(std::string_view text, Settings* out) {
  uint64_t mtu = 0;
  if (!read_whole(text, 256, 4096, &mtu) || (mtu & (mtu - 1)) != 0) return false;
  out->mtu_bytes = static_cast<int>(mtu);
  return true;
}

bool read_domain(std::string_view text, Settings* out) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (text.empty() || text.size() > 32 || text.find_first_not_of(allowed) != std::string_view::npos) return false;
  out->domain = text;
  return true;
}

bool read_gids(std::string_view text, Settings* out) {
  constexpr std::array<std::string_view, 7> names = {"ll1", "ll2", "ip1", "ip2", "ip61", "ip62", "none"};
  out->gids.clear();
  while (!text.empty()) {
    std::string_view word = take(&text, '+');
    size_t kind = 0;
    while (kind < names.size() && names[kind] != word) kind++;
    if (kind == names.size()) return false;
    out->gids.push_back(static_cast<GidKind>(kind));
  }
  return !out->gids.empty() && out->gids.size() <= kMaxGids;
}

bool read_link(std::string_view text, Settings* out) {
  out->infiniband.clear();
  while (!text.empty()) {
    std::string_view word = take(&text, '+');
    if (word != "ib" && word != "eth") return false;
    out->infiniband.push_back(word == "ib");
  }
  return !out->infiniband.empty() && out->infiniband.size() <= kMaxDevices;
}

bool read_nets(std::string_view text, Settings* out) {
  out->nets.clear();
  while (!text.empty()) {
    uint64_t net = 0;
    if (!read_whole(take(&text, '+'), 0, kMaxDevices - 1, &net)) return false;
    if (std::find(out->nets.begin(), out->nets.end(), net) != out->nets.end()) return false;
    out->nets.push_back(static_cast<unsigned>(net));
  }
  return !out->nets.empty();
}

struct ErrorName {
  std::string_view name;
  int number;
};
constexpr ErrorName kErrors[] = {
    {"EACCES", EACCES},       {"ENOENT", ENOENT},           {"ENOMEM", ENOMEM},   {"EMFILE", EMFILE},
    {"EINVAL", EINVAL},       {"ENODEV", ENODEV},           {"ENODATA", ENODATA}, {"EFAULT", EFAULT},
    {"ETIMEDOUT", ETIMEDOUT}, {"ENETUNREACH", ENETUNREACH},
};

bool read_refusal(std::string_view text, Settings* out) {
  constexpr std::array<std::string_view, kRefusals> names = {
      "open_device", "create_comp_channel", "create_cq", "create_qp", "to_init", "to_rtr", "to_rts", "reg_mr"};
  const auto* what = std::find(names.begin(), names.end(), take(&text, ':'));
  Refused refused{};
  if (what == names.end() || !read_whole(take(&text, ':'), 1, UINT64_MAX, &refused.nth)) return false;
  refused.what = static_cast<Refusal>(what - names.begin());
  for (const ErrorName& known : kErrors)
    if (known.name == text) {
      refused.error = known.number;
      out->refusals.push_back(refused);
      return true;
    }
  return false;
}

template <uint64_t Min, uint64_t Max, auto Member>
bool read_count(std::string_view text, Settings* out) {
  uint64_t value = 0;
  if (!read_whole(text, Min, Max, &value)) return false;
  out->*Member = static_cast<std::remove_reference_t<decltype(out->*Member)>>(value);
  return true;
}

struct Row {
  std::string_view name;
  bool (*read)(std::string_view, Settings*);
  std::string_view accepted;
};

constexpr std::string_view kTime = "a time such as 500ns, 2us, 1.5ms";
constexpr Row kRows[] = {
    {"devices", read_count<1, kMaxDevices, &Settings::devices>, "1 to 8"},
    {"host", read_count<0, kMaxHosts - 1, &Settings::host>, "0 to 63"},
    {"rate", [](std::string_view t, Settings* s) { return read_into(t, kRateUnits, 1e13, &s->bits_per_s); },
     "bits per second such as 100m, 10g, or 0g for no limit"},
    {"latency", [](std::string_view t, Settings* s) { return read_into(t, kTimeUnits, 1e10, &s->latency_ns); }, kTime},
    {"doorbell", [](std::string_view t, Settings* s) { return read_into(t, kTimeUnits, 1e9, &s->doorbell_ns); }, kTime},
    {"loss", [](std::string_view t, Settings* s) { return read_into(t, kShare, 0.99, &s->loss); },
     "a share such as 0.1% or 0.001, at most 99%"},
    {"seed", read_count<0, UINT64_MAX, &Settings::seed>, "a whole number"},
    {"mtu", read_mtu, "256, 512, 1024, 2048 or 4096"},
    {"memlock", [](std::string_view t, Settings* s) { return read_into(t, kSizeUnits, 1e15, &s->memlock_bytes); },
     "a size such as 64k, 8m, 1g"},
    {"domain", read_domain, "1 to 32 letters, digits, '_' or '-'"},
    {"gids", read_gids, "up to 8 of ll1, ll2, ip1, ip2, ip61, ip62, none joined by '+'"},
    {"link", read_link, "eth or ib, or one for each device joined by '+' as in ib+eth"},
    {"nets", read_nets, "a subnet from 0 to 7 for each device, all different, joined by '+' as in 1+0"},
    {"route", read_count<0, 1, &Settings::route>, "1 if subnets reach each other, else 0"},
    {"down", [](std::string_view t, Settings* s) { return read_port_change(t, false, s); },
     "DEVICE@TIME as in dev0@3s"},
    {"up", [](std::string_view t, Settings* s) { return read_port_change(t, true, s); }, "DEVICE@TIME as in dev0@5s"},
    {"fail", read_fault,
     "DEVICE:WHAT:N:STATUS as in dev1:qp-send:100:REM_OP_ERR; WHAT is qp-send, write, send, read or atomic"},
    {"corrupt", read_corruption, "DEVICE:write:N as in dev0:write:100"},
    {"starve", read_starvation, "DEVICE:recv:N as in dev0:recv:100"},
    {"refuse", read_refusal,
     "FUNCTION:N:ERRNO as in create_cq:1:ENOMEM; FUNCTION is open_device, create_comp_channel, create_cq, create_qp, "
     "to_init, to_rtr, to_rts or reg_mr; ERRNO is EACCES, ENOENT, ENOMEM, EMFILE, EINVAL, ENODEV, ENODATA, EFAULT, "
     "ETIMEDOUT or ENETUNREACH"},
};

bool read_word(std::string_view word, Settings* out, std::string* error) {
  std::string_view value = word;
  std::string_view name = take(&value, '=');
  std::string names;
  for (const Row& row : kRows) {
    if (row.name == name) {
      if (row.read(value, out)) return true;
      *error = std::string("SOFTNIC: ") + std::string(word) + ": accepted is " + std::string(row.accepted);
      return false;
    }
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  *error = "SOFTNIC: no setting is called '" + std::string(name) + "'; there are " + names;
  return false;
}

}  // namespace

std::optional<Settings> parse_settings(std::string_view text, std::string* error) {
  Settings settings;
  while (!text.empty()) {
    std::string_view word = take(&text, ',');
    if (!word.empty() && !read_word(word, &settings, error)) return std::nullopt;
  }
  return settings;
}

std::optional<Settings> settings_from_environment(std::string* error) {
  const char* text = std::getenv("SOFTNIC");
  return parse_settings(text ? text : "", error);
}

}  // namespace softnic
