// Joining a domain: slot, ports, devices; and the registry of objects that the helper thread serves.
#include "softnic/process.hpp"

#include <linux/prctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace softnic {
namespace {

std::mutex membership_mutex;
std::weak_ptr<Process> membership;
Process* joined = nullptr;  // what exit and fork must look at

void leave_at_exit() {
  std::lock_guard guard(membership_mutex);
  if (joined) joined->abandon();
}

void after_fork_in_child() {
  if (joined) joined->forget_after_fork();
  joined = nullptr;
  membership.reset();
}

void install_hooks() {
  static bool once = [] {
    std::atexit(leave_at_exit);
    pthread_atfork([] { membership_mutex.lock(); }, [] { membership_mutex.unlock(); },
                   [] {
                     after_fork_in_child();
                     membership_mutex.unlock();
                   });
    return true;
  }();
  (void)once;
}

void copy_name(char* to, size_t size, const std::string& text) {
  std::snprintf(to, size, "%s", text.c_str());
}

std::string device_folder(const Domain& domain, uint32_t host, uint32_t device) {
  return domain.folder() + "/host" + std::to_string(host) + "/softnic" + std::to_string(device);
}

}  // namespace

std::shared_ptr<Process> Process::attach(std::string* error) {
  std::shared_ptr<Process> process;  // destroyed after the lock is given back: its destructor takes it
  std::lock_guard guard(membership_mutex);
  install_hooks();
  process = membership.lock();
  if (process) return process;
  process.reset(new Process);
  if (!process->join(error)) return nullptr;
  joined = process.get();
  membership = process;
  return process;
}

bool Process::join(std::string* error) {
  auto settings = settings_from_environment(error);
  if (!settings) return false;
  settings_ = *settings;
  domain_ = Domain::join(settings_.domain, error);
  if (!domain_) return false;
#ifdef PR_SET_PTRACER
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // where yama restricts process_vm_writev
#endif
  if (!take_slot()) {
    *error = "softnic: " + domain_->folder() + " is full: 256 processes use it; try another domain= in SOFTNIC";
    domain_->leave(false);
    domain_ = nullptr;
    return false;
  }
  for (uint32_t device = 0; device < settings_.devices; device++) open_port(device);
  make_devices();
  return true;
}

bool Process::take_slot() {
  std::lock_guard guard(state()->lock);
  for (uint32_t i = 0; i < kMaxProcesses; i++)
    if (state()->processes[i].in_use.load() && state()->processes[i].life.holder_is_gone()) release_resources(i);
  for (slot_ = 0; slot_ < kMaxProcesses && state()->processes[slot_].in_use.load(); slot_++) continue;
  if (slot_ == kMaxProcesses) return false;
  SharedProcess& own = state()->processes[slot_];
  own.pid = getpid();
  own.kick.store(0);
  own.sleep_until.store(kNever);
  helper_ = std::thread([this] { helper(); });
  // The slot is ours once the helper holds its life lock.
  std::unique_lock started(started_mutex_);
  started_.wait(started, [this] { return helper_runs_; });
  own.in_use.store(1);
  return true;
}

// What a process left behind, killed or at exit. state()->lock is held; heap pages are given back afterwards by the
// owner's own destroy calls only, so here the bitmap is cleared directly.
void Process::release_resources(uint32_t slot) {
  auto free_pages = [this](uint64_t offset, uint32_t pages) {
    if (pages) std::memset(state()->heap_used + (offset - kHeapOffset) / kPageBytes, 0, pages);
  };
  for (SharedQp& qp : state()->qps)
    if (qp.qp_num.load() && qp.owner == slot) {
      std::lock_guard guard(qp.lock);
      qp.qp_num.store(0);
      free_pages(qp.rq_ring, qp.rq_pages);
    }
  for (SharedCq& cq : state()->cqs)
    if (cq.handle.load() && cq.owner == slot) {
      std::lock_guard guard(cq.lock);
      cq.handle.store(0);
      free_pages(cq.ring, cq.pages);
    }
  for (SharedMr& mr : state()->mrs)
    if (mr.owner == slot + 1) {
      mr.key.store(0);
      mr.owner = 0;
    }
  state()->processes[slot].in_use.store(0);
}

void Process::open_port(uint32_t device) {
  SharedPort* port = own_port(device);
  {
    std::lock_guard guard(state()->lock);
    if (!port->ready.load()) {
      port->opened_ns = now_ns();
      port->ns_per_byte = settings_.bits_per_s > 0 ? 8e9 / settings_.bits_per_s : 0;
      port->net = settings_.net_of(device);
      port->infiniband = settings_.is_infiniband(device);
      port->change_count = 0;
      for (const PortChange& change : settings_.port_changes)
        if (change.device == device && port->change_count < kMaxPortChanges)
          port->changes[port->change_count++] = change;
      std::sort(port->changes, port->changes + port->change_count,
                [](const PortChange& a, const PortChange& b) { return a.at_ns < b.at_ns; });
      port->ready.store(1, std::memory_order_release);
    }
  }
  own_counters_[device] = counters(settings_.host, device);
}

CounterFiles* Process::counters(uint32_t host, uint32_t device) {
  std::lock_guard guard(counter_files_mutex_);
  auto& files = counter_files_[{host, device}];
  if (!files) {
    files = std::make_unique<CounterFiles>();
    files->open(device_folder(*domain_, host, device) + "/ports/1", &port(host, device)->counters);
  }
  return files.get();
}

void Process::make_devices() {
  for (unsigned i = 0; i < settings_.devices; i++) {
    LocalDevice& device = devices_[i];
    device.node_type = IBV_NODE_CA;
    device.transport_type = IBV_TRANSPORT_IB;
    device.process = this;
    device.index = i;
    std::string folder = device_folder(*domain_, settings_.host, i);
    copy_name(device.name, sizeof device.name, "softnic" + std::to_string(i));
    copy_name(device.dev_name, sizeof device.dev_name, "uverbs" + std::to_string(i));
    copy_name(device.dev_path, sizeof device.dev_path, folder);
    copy_name(device.ibdev_path, sizeof device.ibdev_path, folder);
    write_file(folder + "/board_id", "softnic\n");
    write_file(folder + "/hca_type", "softnic\n");
    write_file(folder + "/ports/1/link_layer", settings_.is_infiniband(i) ? "InfiniBand\n" : "Ethernet\n");
    if (settings_.is_infiniband(i)) continue;
    make_folders(folder + "/ports/1/gid_attrs/ndevs");
    for (unsigned gid = 0; gid < settings_.gids.size(); gid++)
      if (settings_.gids[gid] != GidKind::kEmpty)
        write_file(folder + "/ports/1/gid_attrs/ndevs/" + std::to_string(gid), "softnet" + std::to_string(i) + "\n");
  }
}

Process::~Process() {
  {
    std::lock_guard guard(membership_mutex);
    if (joined == this) joined = nullptr;
  }
  if (domain_) leave(false);
}

void Process::leave(bool keep_mapped) {
  if (std::exchange(left_, true)) return;
  stop_.store(true);
  wake(slot_);
  if (helper_.joinable()) helper_.join();
  {
    std::lock_guard guard(state()->lock);
    // Once our helper has let go of its life lock, another process may have found the slot free and taken it.
    if (state()->processes[slot_].pid == getpid()) release_resources(slot_);
  }
  close_channels();
  if (!keep_mapped) counter_files_.clear();
  domain_->leave(keep_mapped);
}

void Process::abandon() {
  leave(true);
}

// The child has no helper thread and must not touch the parent's slot. It keeps the mapping, unused.
void Process::forget_after_fork() {
  domain_->forget();
  if (helper_.joinable()) helper_.detach();
  left_ = true;
}

void Process::add(LocalQp* qp) {
  std::lock_guard guard(registry_mutex_);
  qps_.push_back(qp);
}
void Process::remove(LocalQp* qp) {
  std::lock_guard guard(registry_mutex_);
  std::erase(qps_, qp);
}
void Process::add(LocalCq* cq) {
  std::lock_guard guard(registry_mutex_);
  cqs_.push_back(cq);
}
void Process::remove(LocalCq* cq) {
  std::lock_guard guard(registry_mutex_);
  std::erase(cqs_, cq);
}
void Process::add(LocalContext* context) {
  std::lock_guard guard(registry_mutex_);
  contexts_.push_back(context);
}
void Process::remove(LocalContext* context) {
  std::lock_guard guard(registry_mutex_);
  std::erase(contexts_, context);
}

bool Process::visit_live(const void* object, void (*visit)(void*)) {
  std::lock_guard guard(registry_mutex_);
  for (LocalQp* qp : qps_)
    if (static_cast<ibv_qp*>(qp) == object) return visit(qp), true;
  for (LocalCq* cq : cqs_)
    if (static_cast<ibv_cq*>(cq) == object) return visit(cq), true;
  return false;
}

ibv_cq* Process::find_cq(uint32_t handle) {
  std::lock_guard guard(registry_mutex_);
  for (LocalCq* cq : cqs_)
    if (cq->handle == handle) return cq;
  return nullptr;
}

uint32_t Process::fault_for(uint32_t device, uint32_t opcode) {
  if (settings_.faults.empty()) return 0;
  FaultPoint kind = opcode <= IBV_WR_RDMA_WRITE_WITH_IMM ? FaultPoint::kWrite
                    : opcode <= IBV_WR_SEND_WITH_IMM     ? FaultPoint::kSend
                    : opcode == IBV_WR_RDMA_READ         ? FaultPoint::kRead
                                                         : FaultPoint::kAtomic;
  uint64_t any = ++requests_[device][static_cast<int>(FaultPoint::kAny)];
  uint64_t same = ++requests_[device][static_cast<int>(kind)];
  for (const Fault& fault : settings_.faults) {
    bool hit = fault.point == FaultPoint::kAny ? any == fault.nth : fault.point == kind && same == fault.nth;
    if (hit && fault.device == device) return fault.status | (fault.done ? kFaultDone : 0);
  }
  return 0;
}

bool Process::damages(uint32_t device, uint32_t length) {
  if (settings_.corruptions.empty() || length == 0) return false;
  const uint64_t now = ++writes_[device];
  for (const Corruption& c : settings_.corruptions)
    if (c.device == device && c.nth == now) return true;
  return false;
}

bool Process::loses_receive(uint32_t device) {
  if (settings_.starvations.empty()) return false;
  const uint64_t now = ++receives_[device];
  for (const Starvation& s : settings_.starvations)
    if (s.device == device && now >= s.nth) return true;
  return false;
}

int Process::refusal(Refusal what) {
  if (settings_.refusals.empty()) return 0;
  const uint64_t now = ++calls_[static_cast<size_t>(what)];
  for (const Refused& r : settings_.refusals)
    if (r.what == what && r.nth == now) return r.error;
  return 0;
}

bool Process::pin(uint64_t bytes) {
  uint64_t total = pinned_bytes_.fetch_add(bytes) + bytes;
  if (settings_.memlock_bytes == 0 || total <= settings_.memlock_bytes) return true;
  pinned_bytes_.fetch_sub(bytes);
  return false;
}

}  // namespace softnic
