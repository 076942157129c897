// Is this handle one that we made and have not freed? The table behind the checks of communicator and stream handles.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace twohop {

/// Owns the handles of one kind. Any thread. A thread that asks for the same handle again, with none freed in between,
/// is answered from its own memory: calls on the fast path take no lock. A child of fork() starts with an empty table:
/// what its parent made has its threads and peers there.
template <class T>
class LiveTable {
 public:
  /// The process's table. Never destroyed: threads may still run while a process exits.
  static LiveTable& of_process() {
    static LiveTable& table = make();
    return table;
  }
  /// True in a child of fork() whose parent had handles.
  bool forked() const { return forked_; }

  T* add(std::shared_ptr<T> object) {
    T* handle = object.get();
    std::lock_guard lock(mutex_);
    live_->emplace(handle, std::move(object));
    return handle;
  }

  bool contains(const T* handle) {
    struct Known {
      const T* handle;
      uint64_t since;
    };
    thread_local Known known{nullptr, 0};
    const uint64_t frees = frees_.load(std::memory_order_acquire);
    if (handle == known.handle && frees == known.since) return handle != nullptr;
    std::lock_guard lock(mutex_);
    if (live_->count(handle) == 0) return false;
    known = {handle, frees};
    return true;
  }

  /// Null when it is not in the table (any more): of two threads that free a handle at once, one gets it.
  std::shared_ptr<T> remove(const T* handle) {
    std::lock_guard lock(mutex_);
    auto at = live_->find(handle);
    if (at == live_->end()) return nullptr;
    std::shared_ptr<T> object = std::move(at->second);
    live_->erase(at);
    frees_.fetch_add(1, std::memory_order_release);
    return object;
  }

  std::vector<std::shared_ptr<T>> all() {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> objects;
    for (const auto& [handle, object] : *live_) objects.push_back(object);
    return objects;
  }

 private:
  using Table = std::unordered_map<const T*, std::shared_ptr<T>>;

  static LiveTable& make() {
    auto* table = new LiveTable;
    pthread_atfork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); },
                   [] { of_process().forget(); });
    return *table;
  }
  /// In the child. What the parent made is left as it is, undestroyed: nothing here may touch its peers.
  void forget() {
    forked_ = forked_ || !live_->empty();
    live_ = new Table;
    frees_.fetch_add(1, std::memory_order_release);
    mutex_.unlock();
  }

  std::mutex mutex_;
  bool forked_ = false;
  std::atomic<uint64_t> frees_{0};
  Table* live_ = new Table;
};

}  // namespace twohop
