// What does an open group of a thread hold, and what does its end do with it?
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "api/comm_init.hpp"
#include "api/stream_handle.hpp"

namespace twohop {

class Group {
 public:
  static Group& of_thread();

  bool open() const { return depth_ > 0; }
  void start() { ++depth_; }
  /// The outermost end runs what was collected. The first error; nothing but destruction is run if there was one while
  /// calls were collected.
  Result<> end();

  // Pre: open().
  void add(JoinRequest join) { contents_.joins.push_back(std::move(join)); }
  void add(twohopComm& comm, const Call& call, twohopStream_t stream);
  /// A call on GPU memory; `stream` is CUDA's.
  void add_on_gpu(twohopComm& comm, const Call& call, void* stream);
  void add_destruction(twohopComm& comm);
  void add_error(const Error& error);

  bool uses(twohopStream_t stream) const;
  bool destroys(twohopComm_t comm) const;

 private:
  struct PendingCall {
    std::shared_ptr<twohopComm> comm;
    Call call;
    twohopStream_t stream;  // null: blocking
    int index;              // among the calls of its communicator in this group
  };
  struct GpuCall {
    std::shared_ptr<twohopComm> comm;
    Call call;
    void* stream;
  };
  struct Contents {
    std::optional<Error> error;
    std::vector<JoinRequest> joins;
    std::vector<PendingCall> calls;
    std::vector<GpuCall> gpu_calls;
    std::vector<std::shared_ptr<twohopComm>> destructions;
  };
  static Result<> run(const Contents& contents);
  static Result<> launch(const std::vector<GpuCall>& calls);
  static Result<> run_calls(const std::vector<PendingCall>& calls);

  int depth_ = 0;
  Contents contents_;
};

}  // namespace twohop
