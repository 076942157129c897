// The verbs objects as C++ objects: one move-only class each, made by create(), destroyed with the last that uses them.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "transport/verbs/verbs_library.hpp"

namespace twohop::verbs {

/// Holds one object and what must outlive it.
template <class Raw>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& o) noexcept
      : raw_(std::exchange(o.raw_, nullptr)), destroy_(o.destroy_), parents_(std::move(o.parents_)) {}
  Handle& operator=(Handle&& o) noexcept {
    if (this == &o) return *this;
    reset();
    raw_ = std::exchange(o.raw_, nullptr);
    destroy_ = o.destroy_;
    parents_ = std::move(o.parents_);
    return *this;
  }
  ~Handle() { reset(); }
  Raw* get() const { return raw_; }
  Raw* operator->() const { return raw_; }
  explicit operator bool() const { return raw_; }

 protected:
  using Destroy = int (*)(Raw*);
  Handle(Raw* raw, Destroy destroy, std::shared_ptr<const void> parents)
      : raw_(raw), destroy_(destroy), parents_(std::move(parents)) {}

 private:
  void reset() {
    if (raw_) destroy_(std::exchange(raw_, nullptr));
    parents_.reset();
  }
  Raw* raw_ = nullptr;
  Destroy destroy_ = nullptr;
  std::shared_ptr<const void> parents_;
};

/// How many objects of a kind this process has on a device, for messages. Each object holds one of the tokens.
struct DeviceUse {
  std::atomic<int> cqs{0}, qps{0}, mrs{0};
};

class Context : public Handle<ibv_context> {
 public:
  static Result<std::shared_ptr<Context>> open(std::shared_ptr<const VerbsLibrary> library, ibv_device* device);
  const VerbsApi& api() const { return library_->api(); }
  std::string name() const { return api().get_device_name(get()->device); }
  DeviceUse& use() const { return *use_; }
  /// "5 queue pairs of 131072, 2 completion queues of 65536, 7 memory regions of 16384".
  std::string use_of_limits() const;

 private:
  Context(ibv_context* raw, std::shared_ptr<const VerbsLibrary> library)
      : Handle(raw, library->api().close_device, library), library_(std::move(library)) {}
  std::shared_ptr<const VerbsLibrary> library_;
  std::unique_ptr<DeviceUse> use_ = std::make_unique<DeviceUse>();
};

class ProtectionDomain : public Handle<ibv_pd> {
 public:
  static Result<std::shared_ptr<ProtectionDomain>> create(std::shared_ptr<Context> context);
  const std::shared_ptr<Context>& context() const { return context_; }

 private:
  ProtectionDomain(ibv_pd* raw, std::shared_ptr<Context> context)
      : Handle(raw, context->api().dealloc_pd, context), context_(std::move(context)) {}
  std::shared_ptr<Context> context_;
};

/// 2: where the library knows it; 1: always; 0: never. As TWOHOP_IB_PCI_RELAXED_ORDERING.
enum class RelaxedOrdering : int { kOff = 0, kForce = 1, kAuto = 2 };

class MemoryRegion : public Handle<ibv_mr> {
 public:
  /// Readable here, and open to remote ranks as `remote_access` says. `already` is what the endpoint has registered
  /// before, for the message.
  static Result<MemoryRegion> create(const std::shared_ptr<ProtectionDomain>& pd, std::span<std::byte> memory,
                                     RelaxedOrdering ordering, size_t already,
                                     unsigned remote_access = IBV_ACCESS_REMOTE_WRITE);
  /// Of a GPU, by a dma-buf that covers it from its start.
  static Result<MemoryRegion> create_from_dmabuf(const std::shared_ptr<ProtectionDomain>& pd,
                                                 std::span<std::byte> memory, int dmabuf, RelaxedOrdering ordering);
  bool contains(const void* p, size_t bytes) const;

 private:
  using Handle::Handle;
};

class CompletionChannel : public Handle<ibv_comp_channel> {
 public:
  /// Its fd is non-blocking.
  static Result<std::shared_ptr<CompletionChannel>> create(std::shared_ptr<Context> context);

 private:
  using Handle::Handle;
};

class CompletionQueue : public Handle<ibv_cq> {
 public:
  static Result<std::shared_ptr<CompletionQueue>> create(const std::shared_ptr<Context>& context,
                                                         const std::shared_ptr<CompletionChannel>& channel, int depth);

 private:
  using Handle::Handle;
};

struct QueueDepths {
  uint32_t send = 0, receive = 0, inline_bytes = 0;
};

class QueuePair : public Handle<ibv_qp> {
 public:
  /// Reliable connected, in RESET. `depths` becomes what the device gave.
  static Result<QueuePair> create(const std::shared_ptr<ProtectionDomain>& pd,
                                  const std::shared_ptr<CompletionQueue>& cq, QueueDepths& depths);

 private:
  using Handle::Handle;
};

}  // namespace twohop::verbs
