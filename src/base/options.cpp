// What may a TWOHOP_* variable be, and what is it now? The table, its parser and the process's snapshot.
#include "base/options.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <variant>

#include "base/environment.hpp"
#include "base/log.hpp"

namespace twohop {
namespace {

enum class Unit : uint8_t { kNumber, kSeconds, kBytes, kText, kChoice, kChoices };

struct Row {
  const char* name;
  std::variant<int64_t Options::*, std::string Options::*> member;
  Unit unit;
  int64_t min, max;     // of the number; of the length for text
  const char* choices;  // kChoice, kChoices: comma separated, any case; the first of kChoices stands alone
  const char* help;
};

constexpr std::string_view kSecret = "TWOHOP_JOB_SECRET";

std::vector<Row> rows_of_calls() {
  using enum Unit;
  return {
      {"TWOHOP_ALGO", &Options::algo, kChoices, 0, 0,
       "auto, two-hop, two-hop-tree, two-hop-log, node-ring, node-ring-tree, node-ring-log, one-shot, flat, "
       "flat-naive, "
       "flat-tree",
       "Algorithms that may be used, as a comma separated list, `^` before it: all but these; two-hop for what none of "
       "them can do. Where that leaves a choice: what the tuner's table says; without one, one-shot for little data (n "
       "ranks x buffer up to 64 KiB), else two-hop. docs/algorithms.md describes them."},
      {"TWOHOP_MODEL_FILE", &Options::model_file, kText, 0, 4095, "",
       "Network model that rank 0 works the tuner's table out of, in milliseconds: a JSON file from `calibrate`, "
       "`built-in`: one for the network's kind, `none`: no table."},
      {"TWOHOP_TUNER_FILE", &Options::tuner_file, kText, 0, 4095, "",
       "Tuner's table (JSON, from `allreduce_perf --tune`) that rank 0 reads in place of working one out."},
      {"TWOHOP_NCHANNELS", &Options::nchannels, kNumber, 0, 16, "",
       "Channels: independent pipelines that share each call's data; 0: 16 over RDMA, whose doorbells they share, 1 "
       "over TCP, where each is a connection that competes for the wire, 2 on one node."},
      {"TWOHOP_BUFFSIZE", &Options::buff_bytes, kBytes, 4 * kKi, kGi, "",
       "Window bytes per channel, through which data is staged, at most: no more are taken than chunks need."},
      {"TWOHOP_CHUNK_BYTES", &Options::chunk_bytes, kBytes, 128, 64 * kMi, "",
       "Largest chunk, the unit of the pipeline; rounded down to a multiple of 128. With many channels at most 1 MiB "
       "divided by their number."},
      {"TWOHOP_RANKS_PER_NODE", &Options::ranks_per_node, kNumber, 0, 1024, "",
       "Cuts each host into virtual nodes of this many ranks; 0: nodes are the hosts as found."},
      {"TWOHOP_HOSTID", &Options::host_id, kText, 0, 255, "",
       "Ranks with the same text are on one node; empty: from the machine."},
      {"TWOHOP_TOPO_FILE", &Options::topo_file, kText, 0, 4095, "",
       "Reads the machine's topology from this file (NCCL XML, hwloc XML, JSON, `nvidia-smi topo -m`) and checks it "
       "against the machine; empty: from the machine."},
      {"TWOHOP_TOPO_DUMP_FILE", &Options::topo_dump_file, kText, 0, 4095, "",
       "Writes the topology that is used into this file, once per host: NCCL XML where it ends in .xml, else JSON; "
       "`%h` "
       "in its name is the host; empty: none."},
      {"TWOHOP_NUMA_BIND", &Options::numa_bind, kNumber, 0, 1, "",
       "1: stream threads and windows go to the NUMA node of the rank's GPU or rail, inside the process's CPU mask; 0: "
       "nothing is bound."},
      {"TWOHOP_GPU", &Options::gpu, kChoice, 0, 0, "auto, on, off",
       "Calls on GPU memory; auto: where every rank's process has used CUDA before it joins; on: the join fails where "
       "they are not possible; off: never."},
      {"TWOHOP_REQUIRE_GDR", &Options::require_gdr, kNumber, 0, 1, "",
       "1: calls on GPU memory between nodes fail to set up where the network does not reach the GPUs itself "
       "(GPUDirect RDMA); 0: they go through host memory then."},
      {"TWOHOP_USE_CUDA_MEMCPY", &Options::use_cuda_memcpy, kNumber, 0, 1, "",
       "Data of calls on GPU memory that has to go through host memory; 1: copy engines (cudaMemcpyAsync) copy it "
       "between the two; 0: the kernels do. Ranks may differ."},
  };
}

std::vector<Row> rows_of_network() {
  using enum Unit;
  return {
      {"TWOHOP_SOCKET_IFNAME", &Options::socket_ifname, kText, 0, 1023, "",
       "Interfaces to use: comma separated prefixes, `=` for exact names, `^` to exclude; empty: not lo, not docker."},
      {"TWOHOP_NET", &Options::net, kChoice, 0, 0, "auto, verbs, tcp, softnic",
       "Network between nodes; `auto`: verbs where an RDMA device is usable, else tcp; `softnic`: the emulated "
       "device."},
      {"TWOHOP_NRAILS", &Options::nrails, kNumber, 0, 16, "",
       "At most this many RDMA ports are used as rails; 0: all that TWOHOP_IB_HCA or the topology names."},
      {"TWOHOP_DOORBELL_BATCH", &Options::doorbell_batch, kNumber, 1, 512, "",
       "At most this many work requests are posted with one doorbell."},
      {"TWOHOP_HOLD_BYTES", &Options::hold_bytes, kBytes, 0, kGi, "",
       "While more than this is on its way on a queue pair, further work requests gather for one doorbell."},
      {"TWOHOP_IB_HCA", &Options::ib_hca, kText, 0, 1023, "",
       "RDMA devices: `[^][=]<hca>[:<port>]`, comma separated prefixes, `=` for exact names, `^` to exclude; empty: "
       "those that the machine's topology names as rails."},
      {"TWOHOP_IB_QPS_PER_CONNECTION", &Options::ib_qps_per_connection, kNumber, 1, 128, "",
       "Queue pairs per rail between two ranks, shared by the channels of that rail."},
      {"TWOHOP_IB_SPLIT_DATA_ON_QPS", &Options::ib_split_data_on_qps, kNumber, 0, 1, "",
       "1: a message is cut over all queue pairs of its channel; 0: messages take turns."},
      {"TWOHOP_IB_TIMEOUT", &Options::ib_timeout, kNumber, 0, 31, "",
       "An unanswered request is sent again after 4.096 us x 2^this; 0: 20 with one rail, 16 with more."},
      {"TWOHOP_IB_RETRY_CNT", &Options::ib_retry_cnt, kNumber, 0, 7, "", "How often it is sent again."},
      {"TWOHOP_IB_TIMEOUT_STAGGER", &Options::ib_timeout_stagger, kNumber, 0, 8, "",
       "The timeouts of neighbouring queue pairs differ by up to this, so that they do not end together."},
      {"TWOHOP_IB_MTU", &Options::ib_mtu, kNumber, 0, 4096, "",
       "Largest packet payload: 256, 512, 1024, 2048 or 4096; 0: the port's. The smaller of both ends counts."},
      {"TWOHOP_IB_TC", &Options::ib_tc, kNumber, 0, 255, "", "Traffic class of RoCE packets (DSCP x 4)."},
      {"TWOHOP_IB_SL", &Options::ib_sl, kNumber, 0, 15, "", "Service level."},
      {"TWOHOP_IB_PKEY", &Options::ib_pkey, kNumber, 0, 65535, "", "Index of the partition key."},
      {"TWOHOP_IB_GID_INDEX", &Options::ib_gid_index, kNumber, -1, 255, "",
       "Index of the GID; -1: chosen for each peer by reachability and the three variables that follow."},
      {"TWOHOP_IB_ROCE_VERSION_NUM", &Options::ib_roce_version_num, kNumber, 1, 2, "", "RoCE version to prefer."},
      {"TWOHOP_IB_ADDR_FAMILY", &Options::ib_addr_family, kChoice, 0, 0, "auto, AF_INET, AF_INET6",
       "Address family of the GID to prefer; auto: the one in which both ends share a subnet, AF_INET if both."},
      {"TWOHOP_IB_ADDR_RANGE", &Options::ib_addr_range, kText, 0, 127, "",
       "Only GIDs inside this range, as 10.1.0.0/16; empty: any."},
      {"TWOHOP_IB_PCI_RELAXED_ORDERING", &Options::ib_pci_relaxed_ordering, kNumber, 0, 2, "",
       "Registers memory with relaxed ordering: 0 no, 1 yes, 2 where the device knows it."},
  };
}

std::vector<Row> rows_of_time_and_logs() {
  using enum Unit;
  return {
      {"TWOHOP_CHECK", &Options::check, kNumber, 0, 1, "",
       "1: checksums go with all data between nodes, and data that arrives altered ends the call with an error that "
       "names rail, rank and queue pair."},
      {"TWOHOP_TIMEOUT_S", &Options::timeout_s, kSeconds, 1, 7 * 86400, "",
       "A call without any progress for this long fails on all ranks."},
      {"TWOHOP_INIT_TIMEOUT_S", &Options::init_timeout_s, kSeconds, 1, 86400, "",
       "Joining a communicator fails after this long, naming the ranks that are missing."},
      {"TWOHOP_SPIN", &Options::spin, kNumber, 0, 1'000'000'000, "",
       "Polls of a waiting call before it yields the core."},
      {"TWOHOP_YIELDS", &Options::yields, kNumber, 0, 1'000'000'000, "", "Yields of a waiting call before it sleeps."},
      {"TWOHOP_REDUCE_ISA", &Options::reduce_isa, kChoice, 0, 0, "auto, scalar, avx2, avx512, avx512fp16",
       "Instruction set of the reduce kernels; the bits of the result do not depend on it."},
      {"TWOHOP_PORT", &Options::port, kNumber, 0, 65535, "",
       "Port of rank 0 for `twohopCommInitEnv`; 0: MASTER_PORT + 1."},
      {"TWOHOP_JOB_SECRET", &Options::job_secret, kText, 0, 1023, "",
       "Secret that all ranks of `twohopCommInitEnv` share; without one only loopback addresses are accepted."},
      {"TWOHOP_DEBUG", &Options::debug, kChoice, 0, 0, "NONE, VERSION, WARN, INFO, DEBUG, TRACE",
       "How much is logged; VERSION: errors only, after one line with the version."},
      {"TWOHOP_DEBUG_FILE", &Options::debug_file, kText, 0, 4095, "",
       "Logs into this file, `%h` in its name is the host and `%p` the process; empty: stderr."},
      {"TWOHOP_TRACE", &Options::trace, kText, 0, 4095, "",
       "Writes a trace for Perfetto when a communicator is destroyed, into a file of each rank: `%r` in its name is "
       "the "
       "rank, `%h` the host, `%p` the process; further communicators of a process get a number added; empty: none."},
  };
}

/// In documentation order.
const std::vector<Row>& table() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    for (const auto& rows : {rows_of_calls(), rows_of_network(), rows_of_time_and_logs()})
      all.insert(all.end(), rows.begin(), rows.end());
    return all;
  }();
  return rows;
}

// ---- Values ------------------------------------------------------------------------------------------------------

std::string format_number(int64_t number, Unit unit) {
  if (unit != Unit::kBytes || number == 0) return fmt::format("{}", number);
  for (auto [factor, suffix] : {std::pair{kGi, 'G'}, {kMi, 'M'}, {kKi, 'K'}})
    if (number % factor == 0) return fmt::format("{}{}", number / factor, suffix);
  return fmt::format("{}", number);
}

std::string accepted(const Row& row) {
  switch (row.unit) {
    case Unit::kChoice:
    case Unit::kChoices:
      return row.choices;
    case Unit::kText:
      return fmt::format("text of at most {} characters", row.max);
    case Unit::kSeconds:
      return fmt::format("{} to {} seconds", row.min, row.max);
    case Unit::kBytes:
      return fmt::format("{} to {} bytes (suffixes K, M, G)", format_number(row.min, row.unit),
                         format_number(row.max, row.unit));
    case Unit::kNumber:
      break;
  }
  return fmt::format("{} to {}", row.min, row.max);
}

std::string default_value(const Row& row) {
  static const Options defaults;
  if (auto text = std::get_if<std::string Options::*>(&row.member)) return defaults.*(*text);
  return format_number(defaults.*std::get<int64_t Options::*>(row.member), row.unit);
}

Error refuse(const Row& row, std::string_view value) {
  std::string fallback = default_value(row);
  // A long text is quoted by its length only: the value may be a secret.
  std::string shown =
      row.unit == Unit::kText ? fmt::format(" ({} characters)", value.size()) : fmt::format("={}", value);
  return make_error(twohopInvalidArgument, "{}{}: accepted are {}; unset it for the default ({})", row.name, shown,
                    accepted(row), fallback.empty() ? "empty" : fallback);
}

/// The choice spelled as in the table, or empty.
std::string match_choice(std::string_view choices, std::string_view value) {
  while (!choices.empty()) {
    std::string_view choice = choices.substr(0, choices.find(", "));
    if (same_ignoring_case(choice, value)) return std::string(choice);
    choices.remove_prefix(std::min(choices.size(), choice.size() + 2));
  }
  return "";
}

/// The list spelled as in the table, or empty: the first choice alone, or others, perhaps all but those.
std::string match_choices(std::string_view choices, std::string_view value) {
  const std::string_view first = choices.substr(0, choices.find(", "));
  if (same_ignoring_case(first, value)) return std::string(first);
  choices.remove_prefix(first.size() + 2);
  std::string matched = value.starts_with('^') ? "^" : "";
  for (std::string_view rest = value.substr(matched.size());;) {
    const size_t comma = rest.find(',');
    const std::string one = match_choice(choices, rest.substr(0, comma));
    if (one.empty()) return "";
    matched += one;
    if (comma == std::string_view::npos) return matched;
    matched += ',';
    rest.remove_prefix(comma + 1);
  }
}

Result<> assign(const Row& row, std::string_view value, Options& out) {
  if (auto text = std::get_if<std::string Options::*>(&row.member)) {
    std::string matched = row.unit == Unit::kChoice    ? match_choice(row.choices, value)
                          : row.unit == Unit::kChoices ? match_choices(row.choices, value)
                                                       : std::string(value);
    bool fits = row.unit == Unit::kText ? static_cast<int64_t>(value.size()) <= row.max : !matched.empty();
    if (!fits) return refuse(row, value);
    out.*(*text) = std::move(matched);
    return {};
  }
  std::optional<int64_t> number = parse_number(value, row.unit == Unit::kBytes);
  if (!number || *number < row.min || *number > row.max) return refuse(row, value);
  out.*std::get<int64_t Options::*>(row.member) = *number;
  return {};
}

// ---- Names -------------------------------------------------------------------------------------------------------

/// Levenshtein distance: insertions, deletions and replacements.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row[b.size()];
}

std::string nearest_name(std::string_view name) {
  name = name.substr(0, 64);  // the environment is not ours: bound the work
  auto nearer = [&](const Row& x, const Row& y) { return edit_distance(name, x.name) < edit_distance(name, y.name); };
  return std::min_element(table().begin(), table().end(), nearer)->name;
}

Error no_such_variable(std::string_view name) {
  return make_error(twohopInvalidArgument, "{} is not a variable of twohop and is ignored; the nearest one is {}", name,
                    nearest_name(name));
}

// ---- Environments ------------------------------------------------------------------------------------------------

/// Takes every variable that is right; returns the first error.
Result<> read_into(Options& out, const Environment& environment, std::vector<std::string>* warnings) {
  Result<> verdict;
  for (const std::string& entry : environment) {
    if (!entry.starts_with("TWOHOP_")) continue;
    size_t equals = std::min(entry.find('='), entry.size());
    std::string_view name = std::string_view(entry).substr(0, equals);
    std::string_view value = std::string_view(entry).substr(std::min(equals + 1, entry.size()));
    auto row = std::find_if(table().begin(), table().end(), [&](const Row& r) { return r.name == name; });
    if (row == table().end()) {
      if (warnings) warnings->push_back(no_such_variable(name).message);
    } else if (!value.empty()) {
      Result<> assigned = assign(*row, value, out);
      if (!assigned && verdict) verdict = assigned;
    }
  }
  return verdict;
}

struct Snapshot {
  Options values;
  std::vector<std::string> warnings;
  Result<Options> result;
};

Snapshot take_snapshot() {
  Options values;
  std::vector<std::string> warnings;
  Result<> verdict = read_into(values, process_environment(), &warnings);
  Result<Options> result = verdict ? Result<Options>(values) : Result<Options>(verdict.error());
  return {std::move(values), std::move(warnings), std::move(result)};
}

const Snapshot& snapshot() {
  static const Snapshot* taken = new Snapshot(take_snapshot());  // never freed: logging at exit may need it
  return *taken;
}

}  // namespace

const Result<Options>& options() {
  const Snapshot& taken = snapshot();
  // A flag, not call_once: logging asks for the options again.
  static std::atomic_flag told;
  if (!told.test_and_set()) {
    log_enabled(LogLevel::kInfo);  // opens the log, which prints the version line where it is wanted
    for (const std::string& warning : taken.warnings) log_warn("{}", warning);
  }
  return taken.result;
}

const Options& options_even_if_wrong() {
  return snapshot().values;
}

Result<Options> parse_options(const Environment& environment, std::vector<std::string>* warnings) {
  Options values;
  Result<> verdict = read_into(values, environment, warnings);
  if (!verdict) return verdict.error();
  return values;
}

std::vector<OptionHelp> option_help() {
  std::vector<OptionHelp> help;
  for (const Row& row : table()) help.push_back({row.name, default_value(row), accepted(row), row.help});
  return help;
}

std::vector<OptionValue> option_values(const Environment& environment) {
  std::vector<OptionValue> values;
  for (const Row& row : table()) {
    OptionValue value{row.name, default_value(row), false, ""};
    if (const auto text = lookup(environment, row.name); text && !text->empty()) {
      Options scratch;
      const Result<> assigned = assign(row, *text, scratch);
      value.from_environment = true;
      value.value = row.name == kSecret ? fmt::format("({} characters, not shown)", text->size()) : std::string(*text);
      if (!assigned) value.problem = assigned.error().message;
    }
    values.push_back(std::move(value));
  }
  return values;
}

std::string options_table() {
  std::string text = "| variable | default | accepted | meaning |\n|---|---|---|---|\n";
  for (const OptionHelp& row : option_help())
    text += fmt::format("| `{}` | {} | {} | {} |\n", row.name,
                        row.default_value.empty() ? "-" : "`" + row.default_value + "`", row.accepted, row.help);
  return text;
}

}  // namespace twohop
