// Which part of the emulated network belongs to this process? Its slot in the domain, its objects, its helper thread.
#pragma once

#include <condition_variable>
#include <map>
#include <thread>

#include "softnic/domain.hpp"
#include "softnic/objects.hpp"

namespace softnic {

class Process : public std::enable_shared_from_this<Process> {
 public:
  // The process's one membership, shared by its device lists and contexts. null: *error says why.
  static std::shared_ptr<Process> attach(std::string* error);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  SharedState* state() const { return domain_->state(); }
  Domain* domain() const { return domain_; }
  const Settings& settings() const { return settings_; }
  uint32_t slot() const { return slot_; }
  LocalDevice* device(unsigned index) { return &devices_[index]; }

  // A port of any host of the domain, ready to be counted on.
  SharedPort* port(uint32_t host, uint32_t device) { return &state()->ports[host][device]; }
  SharedPort* own_port(uint32_t device) { return port(settings_.host, device); }
  CounterFiles* counters(uint32_t host, uint32_t device);
  CounterFiles* own_counters(uint32_t device) { return own_counters_[device]; }

  // Objects that the helper looks after. Removing waits for a helper that is at work.
  void add(LocalQp* qp);
  void remove(LocalQp* qp);
  void add(LocalCq* cq);
  void remove(LocalCq* cq);
  void add(LocalContext* context);
  void remove(LocalContext* context);
  // Calls visit under the registry's lock if the object still lives.
  bool visit_live(const void* object, void (*visit)(void* object));
  ibv_cq* find_cq(uint32_t handle);

  // Makes sure that somebody runs the queue pair when it is due.
  void wake_helper_for(const LocalQp& qp);
  void wake(uint32_t slot);
  void kick(uint32_t slot);
  bool alive(uint32_t slot);

  // Writes an event into another process's (or our own) completion channel.
  void notify_channel(uint32_t slot, int fd, uint64_t channel_id, uint32_t cq_handle);

  // The n-th request of a device: which fault was asked for (see Wqe), 0 for none.
  uint32_t fault_for(uint32_t device, uint32_t opcode);
  // Whether this write of a device is one whose bytes were asked to be damaged.
  bool damages(uint32_t device, uint32_t length);
  bool loses_receive(uint32_t device);
  // This call of a function: the errno with which it was asked to fail, else 0.
  int refusal(Refusal what);
  // False: the registration would exceed memlock=.
  bool pin(uint64_t bytes);
  void unpin(uint64_t bytes) { pinned_bytes_.fetch_sub(bytes); }

  // At exit of the process: stop and leave, but let objects that still exist stay readable.
  void abandon();
  void forget_after_fork();

 private:
  Process() = default;
  bool join(std::string* error);
  bool take_slot();
  void release_resources(uint32_t slot);
  void make_devices();
  void open_port(uint32_t device);
  void leave(bool keep_mapped);

  void helper();
  uint64_t look_around(uint64_t now);
  uint64_t report_port_changes(uint64_t now);
  void serve_kicks();
  int channel_fd(uint32_t slot, int fd, uint64_t channel_id);
  void close_channels();

  Settings settings_;
  Domain* domain_ = nullptr;
  uint32_t slot_ = 0;
  LocalDevice devices_[kMaxDevices]{};
  CounterFiles* own_counters_[kMaxDevices]{};

  std::mutex registry_mutex_;
  std::vector<LocalQp*> qps_;
  std::vector<LocalCq*> cqs_;
  std::vector<LocalContext*> contexts_;

  std::mutex counter_files_mutex_;
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<CounterFiles>> counter_files_;

  // Channels of other processes that this one has opened. A table of fixed size: the data path allocates nothing.
  struct OpenChannel {
    uint64_t id;
    int fd;
  };
  static constexpr size_t kMaxOpenChannels = 256;
  std::mutex channels_mutex_;
  OpenChannel channels_[kMaxOpenChannels];
  size_t open_channels_ = 0;

  std::atomic<uint64_t> requests_[kMaxDevices][5]{};
  std::atomic<uint64_t> writes_[kMaxDevices]{};    // with bytes, while some are to be damaged
  std::atomic<uint64_t> receives_[kMaxDevices]{};  // while some are to be lost
  std::atomic<uint64_t> calls_[kRefusals]{};       // of functions that may be refused
  std::atomic<uint64_t> pinned_bytes_{0};

  std::thread helper_;
  std::mutex started_mutex_;
  std::condition_variable started_;
  bool helper_runs_ = false;
  uint64_t busy_until_ns_ = 0;  // the helper's own
  std::atomic<bool> stop_{false};
  bool left_ = false;
};

}  // namespace softnic
