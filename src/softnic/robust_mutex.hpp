// How do processes share a lock that survives the death of its holder? The kernel hands it on; the state is kept as it
// is.
#pragma once

#include <errno.h>
#include <pthread.h>

namespace softnic {

class RobustMutex {
 public:
  void init() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
  }
  void lock() {
    if (pthread_mutex_lock(&mutex_) == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
  }
  void unlock() { pthread_mutex_unlock(&mutex_); }

  // For a lock that a process holds as long as it lives. True: nobody holds it, so its process has ended.
  bool holder_is_gone() {
    int status = pthread_mutex_trylock(&mutex_);
    if (status == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
    if (status == EBUSY) return false;
    pthread_mutex_unlock(&mutex_);
    return true;
  }

 private:
  pthread_mutex_t mutex_;
};

}  // namespace softnic
