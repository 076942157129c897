// How do the processes of one host find the emulated network, and how does it vanish with the last of them?
#pragma once

#include <optional>
#include <string>

#include "softnic/layout.hpp"

namespace softnic {

// The mapped shared memory of a domain, a folder of its own in /dev/shm. A shared file lock is held as long as the
// process belongs to it: a folder that nobody locks is stale and is removed by the next process that looks.
class Domain {
 public:
  // nullptr: *error says why.
  static Domain* join(const std::string& name, std::string* error);
  // Unlocks, and removes the folder if nobody else is in it. The mapping stays if keep_mapped (the process is exiting).
  void leave(bool keep_mapped);
  // In a child made by fork: the lock belongs to the parent.
  void forget() const;

  SharedState* state() { return state_; }
  const std::string& folder() const { return folder_; }

  // Offset of zeroed pages, or nullopt when the heap or /dev/shm is full. Both take state()->lock.
  std::optional<uint64_t> allocate(uint32_t pages);
  void free(uint64_t offset, uint32_t pages);

  template <typename T>
  T* at(uint64_t offset) {
    return reinterpret_cast<T*>(reinterpret_cast<char*>(state_) + offset);
  }

 private:
  Domain() = default;
  bool open_locked(std::string* error);
  bool prepare(std::string* error);
  bool map(std::string* error);

  std::string folder_;
  int fd_ = -1;
  SharedState* state_ = nullptr;
};

}  // namespace softnic
