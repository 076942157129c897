// GpuLauncher by CUDA: the calls of a communicator one after the other, on whatever streams, captured or not.
#include <utility>

#include "collectives/exec/cuda/call_order.hpp"
#include "collectives/exec/cuda/cuda_event.hpp"
#include "collectives/exec/cuda/cuda_runtime.hpp"
#include "collectives/exec/cuda/lane_launcher.hpp"
#include "device/cuda/cuda_error.hpp"

namespace twohop {
namespace {

struct Capture {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  bool active() const { return status == cudaStreamCaptureStatusActive; }
};

Result<Capture> capture_of(cudaStream_t stream) {
  Capture c;
#if CUDART_VERSION >= 13000
  const cudaError_t e = cudaStreamGetCaptureInfo(stream, &c.status, &c.id, &c.graph, nullptr, nullptr, nullptr);
#else
  const cudaError_t e = cudaStreamGetCaptureInfo_v2(stream, &c.status, &c.id, &c.graph, nullptr, nullptr);
#endif
  if (e != cudaSuccess) {
    (void)cudaGetLastError();
    return cuda_error(e, "cannot use stream {}", static_cast<void*>(stream));
  }
  return c;
}

/// What orders calls (call_order.hpp).
class Event : public CudaEvent {
 public:
  Result<> delay(cudaStream_t stream) const {
    if (cudaError_t e = cudaStreamWaitEvent(stream, get(), 0); e != cudaSuccess)
      return cuda_error(e, "cannot order a call after the one before it");
    return {};
  }
  Result<> record(cudaStream_t stream) const {
    if (cudaError_t e = cudaEventRecord(get(), stream); e != cudaSuccess)
      return cuda_error(e, "cannot mark the end of a call");
    return {};
  }
  Result<> wait() const {
    if (cudaError_t e = cudaEventSynchronize(get()); e != cudaSuccess)
      return cuda_error(e, "the calls on the GPU did not end well");
    return {};
  }
};
using Order = CallOrder<Event>;

class CudaLauncher : public GpuLauncher {
 public:
  CudaLauncher(int device, LaneLauncher lanes) : device_(device), lanes_(lanes) {}
  Result<> create() {
    if (auto made = launches_.create(); !made) return made;
    return captured_.create();
  }
  ~CudaLauncher() override {
    const OnDevice on(device_);
    (void)launches_.wait();
    launches_.end();
    captured_.end();
  }

  uint32_t resident_lanes() const override { return lanes_.resident_lanes(); }

  /// Captured calls are ordered among each other; against those that are not, the user orders the replays.
  Result<> launch(twohopDataType_t type, const LoopCall& call, GpuStream stream) override {
    const OnDevice on(device_);
    auto* s = static_cast<cudaStream_t>(stream);
    auto capture = capture_of(s);
    if (!capture) return capture.error();
    Order& order = capture->active() ? captured_ : launches_;
    if (capture->active() && capture->id != std::exchange(capture_id_, capture->id)) captured_.forget();
    if (auto ordered = order.before(s); !ordered) return ordered;
    if (auto launched = lanes_.launch(type, call, s); !launched) return launched;
    return order.after(s);
  }
  Result<bool> is_capturing(GpuStream stream) override {
    const OnDevice on(device_);
    auto capture = capture_of(static_cast<cudaStream_t>(stream));
    if (!capture) return capture.error();
    if (capture->status == cudaStreamCaptureStatusInvalidated)
      return make_error(twohopInvalidUsage, "the capture of stream {} has failed before this call", stream);
    return capture->active();
  }
  Result<> hold_in_graph(GpuStream stream, std::shared_ptr<void> token) override {
    const OnDevice on(device_);
    auto capture = capture_of(static_cast<cudaStream_t>(stream));
    if (!capture) return capture.error();
    auto held = std::make_unique<std::shared_ptr<void>>(std::move(token));
    cudaUserObject_t object = nullptr;
    const auto drop = [](void* p) { delete static_cast<std::shared_ptr<void>*>(p); };
    if (cudaError_t e = cudaUserObjectCreate(&object, held.get(), drop, 1, cudaUserObjectNoDestructorSync);
        e != cudaSuccess)
      return cuda_error(e, "cannot give the memory of a call to the graph");
    (void)held.release();  // the object's now
    if (cudaError_t e = cudaGraphRetainUserObject(capture->graph, object, 1, cudaGraphUserObjectMove);
        e != cudaSuccess) {
      (void)cudaUserObjectRelease(object, 1);
      return cuda_error(e, "the graph cannot hold the memory of a call");
    }
    return {};
  }
  Result<> synchronize() override {
    const OnDevice on(device_);
    return launches_.wait();
  }

 private:
  int device_;
  LaneLauncher lanes_;
  Order launches_, captured_;
  unsigned long long capture_id_ = 0;
};

}  // namespace

Result<std::unique_ptr<GpuLauncher>> CudaRuntime::make_launcher(int device) {
  const OnDevice on(device);
  auto lanes = LaneLauncher::create();
  if (!lanes) return lanes.error();
  auto made = std::make_unique<CudaLauncher>(device, *lanes);
  if (auto created = made->create(); !created) return created.error();
  return std::unique_ptr<GpuLauncher>(std::move(made));
}

}  // namespace twohop
