// The options table: every TWOHOP_* variable, its range, default and help.
//
// A process reads its environment once, at the first use of the library (options()). A value that does not parse or
// lies outside its range is an error that every twohopCommInit* returns; an unknown TWOHOP_* name is a warning
// that names the nearest known one. Launcher variables (RANK, MASTER_ADDR, ...) are read here too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace twohop {

struct Options {
  std::string algo = "auto";                  // TWOHOP_ALGO
  std::string model_file = "built-in";        // TWOHOP_MODEL_FILE: or a file, or none
  std::string tuner_file;                     // TWOHOP_TUNER_FILE: empty: from the model
  int64_t nchannels = 0;                      // TWOHOP_NCHANNELS
  int64_t buff_bytes = 4 << 20;               // TWOHOP_BUFFSIZE: window bytes per channel
  int64_t chunk_bytes = 128 << 10;            // TWOHOP_CHUNK_BYTES: largest chunk
  int64_t ranks_per_node = 0;                 // TWOHOP_RANKS_PER_NODE: 0 as found
  std::string host_id;                        // TWOHOP_HOSTID: empty: from the machine
  std::string topo_file;                      // TWOHOP_TOPO_FILE: empty: the live machine
  std::string topo_dump_file;                 // TWOHOP_TOPO_DUMP_FILE: empty: none
  int64_t numa_bind = 1;                      // TWOHOP_NUMA_BIND
  std::string gpu = "auto";                   // TWOHOP_GPU: auto, on, off
  int64_t require_gdr = 0;                    // TWOHOP_REQUIRE_GDR
  int64_t use_cuda_memcpy = 0;                // TWOHOP_USE_CUDA_MEMCPY
  std::string socket_ifname;                  // TWOHOP_SOCKET_IFNAME
  std::string net = "auto";                   // TWOHOP_NET: auto, verbs, tcp, softnic
  int64_t nrails = 0;                         // TWOHOP_NRAILS: 0: all
  int64_t doorbell_batch = 64;                // TWOHOP_DOORBELL_BATCH: work requests per doorbell, at most
  int64_t hold_bytes = 256 << 10;             // TWOHOP_HOLD_BYTES: in flight, above which a batch may grow
  std::string ib_hca;                         // TWOHOP_IB_HCA
  int64_t ib_qps_per_connection = 1;          // TWOHOP_IB_QPS_PER_CONNECTION
  int64_t ib_split_data_on_qps = 0;           // TWOHOP_IB_SPLIT_DATA_ON_QPS
  int64_t ib_timeout = 0;                     // TWOHOP_IB_TIMEOUT: 0: by the number of rails
  int64_t ib_retry_cnt = 7;                   // TWOHOP_IB_RETRY_CNT
  int64_t ib_timeout_stagger = 1;             // TWOHOP_IB_TIMEOUT_STAGGER
  int64_t ib_mtu = 0;                         // TWOHOP_IB_MTU: 0: the port's
  int64_t ib_tc = 0, ib_sl = 0, ib_pkey = 0;  // TWOHOP_IB_TC, _SL, _PKEY
  int64_t ib_gid_index = -1;                  // TWOHOP_IB_GID_INDEX: -1: chosen
  int64_t ib_roce_version_num = 2;            // TWOHOP_IB_ROCE_VERSION_NUM
  std::string ib_addr_family = "auto";        // TWOHOP_IB_ADDR_FAMILY
  std::string ib_addr_range;                  // TWOHOP_IB_ADDR_RANGE
  int64_t ib_pci_relaxed_ordering = 2;        // TWOHOP_IB_PCI_RELAXED_ORDERING
  int64_t check = 0;                          // TWOHOP_CHECK
  int64_t timeout_s = 600;                    // TWOHOP_TIMEOUT_S
  int64_t init_timeout_s = 120;               // TWOHOP_INIT_TIMEOUT_S
  int64_t spin = 16;                          // TWOHOP_SPIN: polls before yielding
  int64_t yields = 100;                       // TWOHOP_YIELDS: yields before sleeping
  std::string reduce_isa = "auto";            // TWOHOP_REDUCE_ISA: auto, scalar, avx2, avx512, avx512fp16
  int64_t port = 0;                           // TWOHOP_PORT: 0: MASTER_PORT + 1
  std::string job_secret;                     // TWOHOP_JOB_SECRET
  std::string debug = "WARN";                 // TWOHOP_DEBUG
  std::string debug_file;                     // TWOHOP_DEBUG_FILE
  std::string trace;                          // TWOHOP_TRACE: empty: off
};

/// "NAME=value" strings, as in the process's environment.
using Environment = std::vector<std::string>;

/// The process's snapshot, or the first error found while reading it. Thread safe; never changes after the first call.
/// The first call also logs the warnings.
const Result<Options>& options();

/// The same values without the verdict: variables in error keep their default, and nothing is logged. For the log
/// itself, which must work while another variable is wrong.
const Options& options_even_if_wrong();

/// Parses an environment: what options() does, for tests and `twohop env`. A variable set to nothing counts as unset.
/// `warnings` (may be null) receives one line per unknown TWOHOP_* name.
Result<Options> parse_options(const Environment& environment, std::vector<std::string>* warnings);

/// One row per variable: name, default, accepted values, help; in documentation order.
struct OptionHelp {
  std::string name, default_value, accepted, help;
};
std::vector<OptionHelp> option_help();
/// What each variable is in `environment`: `twohop env`. A secret's value is not shown.
struct OptionValue {
  std::string name, value;
  bool from_environment = false;
  std::string problem;  // why the value in the environment is not accepted; empty: it is
};
std::vector<OptionValue> option_values(const Environment& environment);
/// The same as a Markdown table: the README's section.
std::string options_table();

/// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT as torchrun-like launchers set them.
struct LauncherEnv {
  int rank = -1, world_size = -1, local_rank = -1;  // local_rank stays -1 where LOCAL_RANK is not set
  std::string master_addr;
  int master_port = -1;  // -1 only where TWOHOP_PORT stands in for it
};
/// Reads them afresh at each call, since programs set them late. Errors name the variable that is missing or malformed.
Result<LauncherEnv> launcher_env();
Result<LauncherEnv> parse_launcher_env(const Environment& environment);

}  // namespace twohop
