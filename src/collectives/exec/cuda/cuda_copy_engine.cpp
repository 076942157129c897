// CopyEngine by CUDA: copies on a stream of their own that waits for nobody, and events between them. They are asked
// for while kernels run and streams are captured: OnDevice keeps captures of other threads out of it.
#include <array>
#include <span>
#include <utility>

#include "collectives/exec/cuda/cuda_event.hpp"
#include "collectives/exec/cuda/cuda_runtime.hpp"
#include "collectives/exec/cuda/side_stream.hpp"

namespace twohop {
namespace {

/// An event that is recorded again and again, and how many copies were complete then.
struct Mark {
  CudaEvent event;
  uint64_t copies = 0;
};

class CudaCopyEngine : public CopyEngine {
 public:
  CudaCopyEngine(int device, SideStream stream) : device_(device), stream_(std::move(stream)) {}
  ~CudaCopyEngine() override {
    const OnDevice on(device_);
    (void)stream_.wait();
    for (Mark& mark : marks_) mark.event.end();
    stream_.end();
  }

  /// Copies a little both ways: what CUDA sets up for that must not be set up beside a kernel that waits for it.
  Result<> create(std::span<std::byte> on_gpu, std::span<std::byte> on_host) {
    for (Mark& mark : marks_)
      if (auto made = mark.event.create(); !made) return made;
    for (auto [to, from] : {std::pair(on_gpu, on_host), std::pair(on_host, on_gpu)}) {
      const cudaError_t copied = cudaMemcpyAsync(to.data(), from.data(), from.size(), cudaMemcpyDefault, stream_.get());
      if (copied != cudaSuccess) return failed(copied);
      if (cudaError_t e = cudaEventRecord(marks_[0].event.get(), stream_.get()); e != cudaSuccess) return failed(e);
      if (auto done = stream_.wait(); !done) return done;
    }
    return {};
  }

  Result<> copy(std::byte* to, const std::byte* from, size_t bytes) override {
    const OnDevice on(device_);
    if (cudaError_t e = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.get()); e != cudaSuccess)
      return failed(e);
    ++started_;
    return {};
  }

  /// One event for all copies that were started since the last look: where all events wait, the next one speaks for
  /// more of them.
  Result<uint64_t> completed() override {
    if (completed_ == started_) return completed_;
    const OnDevice on(device_);
    if (started_ != marked_ && next_ - first_ < marks_.size()) {
      Mark& mark = marks_[next_++ % marks_.size()];
      if (cudaError_t e = cudaEventRecord(mark.event.get(), stream_.get()); e != cudaSuccess) return failed(e);
      mark.copies = marked_ = started_;
    }
    for (; first_ != next_; ++first_) {
      const Mark& mark = marks_[first_ % marks_.size()];
      const cudaError_t e = cudaEventQuery(mark.event.get());
      if (e == cudaErrorNotReady) break;
      if (e != cudaSuccess) return failed(e);
      completed_ = mark.copies;
    }
    return completed_;
  }

  void wait() override {
    const OnDevice on(device_);
    (void)stream_.wait();
  }

 private:
  Error failed(cudaError_t e) const {
    return cuda_error(e, "a copy between GPU {} and host memory failed (TWOHOP_USE_CUDA_MEMCPY=1)", device_);
  }

  int device_;
  SideStream stream_;
  uint64_t started_ = 0, marked_ = 0, completed_ = 0;
  std::array<Mark, 16> marks_;
  size_t first_ = 0, next_ = 0;  // marks that were recorded and not seen complete yet
};

}  // namespace

Result<std::unique_ptr<CopyEngine>> CudaRuntime::make_copy_engine(int device) {
  constexpr size_t kBytes = 4096;
  auto on_gpu = device_memory(device, kBytes);
  if (!on_gpu) return on_gpu.error();
  auto on_host = host_memory(device, kBytes);
  if (!on_host) return on_host.error();
  const OnDevice on(device);
  auto side = SideStream::create();
  if (!side) return side.error();
  auto made = std::make_unique<CudaCopyEngine>(device, std::move(*side));
  auto created = made->create({(*on_gpu)->data(), kBytes}, {(*on_host)->data(), kBytes});
  if (!created) return created.error();
  return std::unique_ptr<CopyEngine>(std::move(made));
}

}  // namespace twohop
