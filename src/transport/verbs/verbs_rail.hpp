// Which ports of which devices are this rank's rails? Opens them; what is sent over them is decided elsewhere.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transport/rail_plan.hpp"
#include "transport/verbs/verbs_attributes.hpp"
#include "transport/verbs/verbs_gid.hpp"
#include "transport/verbs/verbs_hca_list.hpp"
#include "transport/verbs/verbs_hw_counters.hpp"
#include "transport/verbs/verbs_objects.hpp"
#include "transport/verbs/verbs_outages.hpp"

namespace twohop::verbs {

/// What the user may ask for of the rails.
struct RailWish {
  HcaList hcas;
  RailPlan plan;  // by the machine's topology: the ports to use and their order, where `hcas` names none
  size_t max_rails = 16;
  GidWish gid;
  int mtu_bytes = 0;  // 0: the port's
  RelaxedOrdering ordering = RelaxedOrdering::kAuto;
};

/// One port, open.
struct Rail {
  std::string name;  // "mlx5_0:1"
  int number = -1;   // in the job, where the topology says; else -1
  bool own = true;   // see PlannedRail
  std::shared_ptr<Context> context;
  std::shared_ptr<ProtectionDomain> pd;
  std::shared_ptr<CompletionChannel> channel;
  std::shared_ptr<CompletionQueue> cq;  // made once the number of queue pairs is known
  uint8_t port = 1;
  bool ethernet = false;
  uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_1024;
  std::vector<GidCandidate> gids;  // from which one is chosen for each peer
  uint32_t max_requests = 0;       // per queue
  int max_completions = 0;         // per completion queue

  std::vector<MemoryRegion> regions;       // in the order in which they were registered
  std::vector<MemoryRegion> user_regions;  // the user's, by address
  MemoryRegion tags;
  HwCounters counters_at_start;
  std::string last_event;        // the last asynchronous event that means trouble, in words; empty: none
  uint64_t last_event_ns = 0;    // when it was read, by now_ns()
  bool down = false;             // by its asynchronous events
  std::optional<Outage> outage;  // it was given up, and has not come back since
};

/// What the device says now. One that cannot be asked is not.
bool port_is_active(const Rail& rail);

const char* link_layer_name(bool ethernet);

/// All active ports that the wish allows, in its order. InfiniBand and RoCE are never mixed: where both are there, the
/// InfiniBand ports are the fabric. Empty lists are errors that say what there is and why each was passed over;
/// sys_errno is set where there are devices and they cannot be opened.
/// "2 RDMA devices (mlx5_0, mlx5_1)" as sysfs lists them under `folder`; empty: none.
std::string devices_in_sysfs(const std::string& folder);

Result<std::vector<Rail>> open_rails(const std::shared_ptr<const VerbsLibrary>& library, const RailWish& wish);

}  // namespace twohop::verbs
