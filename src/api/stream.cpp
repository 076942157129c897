// The functions of host streams, and the thread behind each.
#include <pthread.h>

#include <csignal>

#include "api/error.hpp"
#include "api/group.hpp"
#include "api/stream_handle.hpp"

using twohop::Bundles;
using twohop::Error;
using twohop::LiveStreams;
using twohop::NumaBinding;
using twohop::Result;

namespace {

/// Signals of the process are its own threads' affair: the thread made inside this scope takes none.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

twohopStream::twohopStream() {
  SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

twohopStream::~twohopStream() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  given_.notify_one();
  thread_.join();
}

void twohopStream::push(Bundles& issued) {
  {
    std::lock_guard lock(mutex_);
    queue_.splice(queue_.end(), issued);
    ++ngiven_;
  }
  given_.notify_one();
}

Result<> twohopStream::synchronize() {
  std::unique_lock lock(mutex_);
  const uint64_t target = ngiven_;
  passed_.wait(lock, [&] { return npassed_ >= target; });
  if (!first_error_) return {};
  Error error = std::move(*first_error_);
  first_error_.reset();
  return error;
}

twohopStream::State twohopStream::state(Error* first_error) const {
  std::lock_guard lock(mutex_);
  if (first_error_) {
    *first_error = *first_error_;
    return State::kFailed;
  }
  return npassed_ == ngiven_ ? State::kIdle : State::kRunning;
}

void twohopStream::run() {
  NumaBinding bound;
  for (Bundles bundle = next(); !bundle.empty(); bundle = next()) {
    const NumaBinding& wanted = bundle.front().binding();
    if (wanted && wanted != bound && twohop::bind_this_thread(wanted)) bound = wanted;
    finished(bundle.front().run());
  }
}

Bundles twohopStream::next() {
  std::unique_lock lock(mutex_);
  given_.wait(lock, [&] { return ending_ || !queue_.empty(); });
  Bundles bundle;
  if (!queue_.empty()) bundle.splice(bundle.end(), queue_, queue_.begin());
  return bundle;
}

void twohopStream::finished(const Result<>& result) {
  {
    std::lock_guard lock(mutex_);
    ++npassed_;
    if (!result && !first_error_) first_error_ = result.error();
  }
  passed_.notify_all();
}

Result<twohopStream*> twohop::live(twohopStream_t stream) {
  if (!stream) return null_argument("stream", "a stream made by twohopStreamCreate");
  if (!LiveStreams::of_process().contains(stream))
    return make_error(twohopInvalidArgument,
                      "stream={} is not a twohop stream: it was destroyed, or not made by twohopStreamCreate",
                      static_cast<const void*>(stream));
  return stream;
}

twohopResult_t twohopStreamCreate(twohopStream_t* stream) {
  return twohop::guarded(__func__, nullptr, [&]() -> Result<> {
    if (!stream) return twohop::null_argument("stream", "a place for the handle");
    *stream = nullptr;
    *stream = LiveStreams::of_process().add(std::make_shared<twohopStream>());
    return {};
  });
}

twohopResult_t twohopStreamSynchronize(twohopStream_t stream) {
  return twohop::guarded(__func__, nullptr, [&]() -> Result<> {
    auto handle = twohop::live(stream);
    if (!handle) return handle.error();
    return stream->synchronize();
  });
}

twohopResult_t twohopStreamQuery(twohopStream_t stream) {
  bool running = false;
  twohopResult_t result = twohop::guarded(__func__, nullptr, [&]() -> Result<> {
    auto handle = twohop::live(stream);
    if (!handle) return handle.error();
    Error error;
    auto state = stream->state(&error);
    running = state == twohopStream::State::kRunning;
    if (state == twohopStream::State::kFailed) return error;
    return {};
  });
  return running ? twohopInProgress : result;
}

twohopResult_t twohopStreamDestroy(twohopStream_t stream) {
  return twohop::guarded(__func__, nullptr, [&]() -> Result<> {
    auto handle = twohop::live(stream);
    if (!handle) return handle.error();
    if (twohop::Group::of_thread().uses(stream))
      return twohop::make_error(twohopInvalidUsage,
                                "stream has calls in the open group: destroy it after twohopGroupEnd");
    LiveStreams::of_process().remove(stream);  // waits, in the destructor
    return {};
  });
}
