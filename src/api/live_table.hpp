// Is this handle one that we made and have not freed? The table behind the checks of communicator and stream handles.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace twohop {

/// Owns the handles of one kind. Any thread. A thread that asks for the same handle again, with none freed in between,
/// is answered from its own memory: calls on the fast path take no lock.
template <class T>
class LiveTable {
 public:
  /// The process's table. Never destroyed: threads may still run while a process exits.
  static LiveTable& of_process() {
    static LiveTable& table = *new LiveTable;
    return table;
  }

  T* add(std::shared_ptr<T> object) {
    T* handle = object.get();
    std::lock_guard lock(mutex_);
    live_.emplace(handle, std::move(object));
    return handle;
  }

  bool contains(const T* handle) {
    thread_local const T* known = nullptr;
    thread_local uint64_t known_since = 0;
    const uint64_t frees = frees_.load(std::memory_order_acquire);
    if (handle == known && frees == known_since) return handle != nullptr;
    std::lock_guard lock(mutex_);
    if (live_.count(handle) == 0) return false;
    known = handle;
    known_since = frees;
    return true;
  }

  /// Null when it is not in the table (any more): of two threads that free a handle at once, one gets it.
  std::shared_ptr<T> remove(const T* handle) {
    std::lock_guard lock(mutex_);
    auto at = live_.find(handle);
    if (at == live_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(at->second);
    live_.erase(at);
    frees_.fetch_add(1, std::memory_order_release);
    return object;
  }

 private:
  std::mutex mutex_;
  std::atomic<uint64_t> frees_{0};
  std::unordered_map<const T*, std::shared_ptr<T>> live_;
};

}  // namespace twohop
