// Groups: collects the calls of a thread, and runs them together at the outermost end.
//
// Calls of one communicator run in the order in which they were made. Calls of one stream (or of none) that the ranks
// of the thread make at the same place of their sequence are run together, for they may wait for each other; calls at
// different places are run together only where the whole group has one stream, since else a call could hold up, by the
// company it runs in, the very call that this company waits for.
#include "api/group.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "api/error.hpp"

namespace twohop {
namespace {

/// Keeps the first error of several results.
class FirstError {
 public:
  void add(Result<> result) {
    if (!result && first_) first_ = std::move(result);
  }
  Result<> take() { return std::move(first_); }

 private:
  Result<> first_;
};

}  // namespace

Group& Group::of_thread() {
  thread_local Group group;
  return group;
}

void Group::add(twohopComm& comm, const Call& call, twohopStream_t stream) {
  auto of_comm = [&](const PendingCall& c) { return c.comm.get() == &comm; };
  auto earlier = std::find_if(contents_.calls.rbegin(), contents_.calls.rend(), of_comm);
  const int index = earlier == contents_.calls.rend() ? 0 : earlier->index + 1;
  contents_.calls.push_back({comm.shared_from_this(), call, stream, index});
}

void Group::add_on_gpu(twohopComm& comm, const Call& call, void* stream) {
  contents_.gpu_calls.push_back({comm.shared_from_this(), call, stream});
}

void Group::add_destruction(twohopComm& comm) {
  contents_.destructions.push_back(comm.shared_from_this());
}

void Group::add_error(const Error& error) {
  if (!contents_.error) contents_.error = error;
}

bool Group::uses(twohopStream_t stream) const {
  return std::any_of(contents_.calls.begin(), contents_.calls.end(),
                     [&](const PendingCall& c) { return c.stream == stream; });
}

bool Group::destroys(twohopComm_t comm) const {
  return std::any_of(contents_.destructions.begin(), contents_.destructions.end(),
                     [&](const auto& c) { return c.get() == comm; });
}

Result<> Group::end() {
  if (depth_ == 0)
    return make_error(twohopInvalidUsage, "there is no open group in this thread: call twohopGroupStart first");
  if (--depth_ > 0) return {};
  const Contents contents = std::exchange(contents_, {});
  FirstError first;
  first.add(contents.error ? Result<>(*contents.error) : run(contents));
  for (const auto& comm : contents.destructions) first.add(destroy(comm.get()));
  return first.take();
}

Result<> Group::run(const Contents& contents) {
  for (const GpuCall& c : contents.gpu_calls) c.comm->communicator->count_made(true);
  for (const PendingCall& c : contents.calls) c.comm->communicator->count_made(false);
  FirstError first;
  first.add(join_all(contents.joins));
  first.add(launch(contents.gpu_calls));
  first.add(run_calls(contents.calls));
  return first.take();
}

/// Whatever may allocate comes before the first launch: it could wait for a kernel that waits for one not launched yet.
Result<> Group::launch(const std::vector<GpuCall>& calls) {
  FirstError first;
  for (const GpuCall& c : calls) first.add(c.comm->communicator->prepare_on_gpu(c.call));
  for (const GpuCall& c : calls) first.add(c.comm->communicator->launch_on_gpu(c.call, c.stream));
  return first.take();
}

Result<> Group::run_calls(const std::vector<PendingCall>& calls) {
  const bool one_stream =
      std::all_of(calls.begin(), calls.end(), [&](const PendingCall& c) { return c.stream == calls[0].stream; });
  std::map<std::pair<int, twohopStream_t>, Bundles> bundles;  // each list holds one; in the order of their issue
  for (const PendingCall& c : calls) {
    Bundles& bundle = bundles[{one_stream ? 0 : c.index, c.stream}];
    if (bundle.empty()) bundle.emplace_back();
    bundle.front().add(*c.comm, c.call);
  }
  for (auto& [key, bundle] : bundles) bundle.front().prepare();
  Bundles blocking;
  {
    std::lock_guard lock(issue_mutex());
    for (auto& [key, bundle] : bundles) {
      bundle.front().issue();
      if (key.second)
        key.second->push(bundle);
      else
        blocking.splice(blocking.end(), bundle);
    }
  }
  FirstError first;
  for (Bundle& bundle : blocking) first.add(bundle.run());
  return first.take();
}

}  // namespace twohop

twohopResult_t twohopGroupStart(void) {
  twohop::Group::of_thread().start();
  return twohopSuccess;
}

twohopResult_t twohopGroupEnd(void) {
  return twohop::guarded(__func__, nullptr, [] { return twohop::Group::of_thread().end(); });
}
