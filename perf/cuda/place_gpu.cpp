// A GPU as the place of a run: its memory, a stream, and events as the clock.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <new>

#include "place.hpp"

namespace twohop::perf {
namespace {

class GpuPlace : public Place {
 public:
  explicit GpuPlace(std::string name) : name_(std::move(name)) {}
  ~GpuPlace() override {
    for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
    if (stream_) (void)cudaStreamDestroy(stream_);
  }
  cudaError_t create() { return cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }

  bool on_gpu() const override { return true; }
  std::string name() const override { return name_; }
  unsigned char* allocate(size_t bytes) override {
    void* memory = nullptr;
    if (cudaMalloc(&memory, bytes) != cudaSuccess || cudaMemset(memory, 0, bytes) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess)
      throw std::bad_alloc();
    return static_cast<unsigned char*>(memory);
  }
  void free(unsigned char* memory) override { (void)cudaFree(memory); }
  void write(unsigned char* to, const unsigned char* from, size_t bytes) override {
    note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_));
    note(cudaStreamSynchronize(stream_));
  }
  void read(unsigned char* to, const unsigned char* from, size_t bytes) override {
    note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
    note(cudaStreamSynchronize(stream_));
  }
  twohopStream_t stream() const override { return reinterpret_cast<twohopStream_t>(stream_); }
  bool wait() override {
    note(cudaStreamSynchronize(stream_));
    return !failed_;
  }

  void lap() override {
    if (laps_ == events_.size()) {
      cudaEvent_t event = nullptr;
      note(cudaEventCreate(&event));
      events_.push_back(event);
    }
    note(cudaEventRecord(events_[laps_++], stream_));
  }
  std::vector<double> take_laps() override {
    std::vector<double> times;
    note(cudaStreamSynchronize(stream_));
    for (size_t i = 1; i < laps_; ++i) {
      float ms = 0;
      note(cudaEventElapsedTime(&ms, events_[i - 1], events_[i]));
      times.push_back(1e3 * static_cast<double>(ms));
    }
    laps_ = 0;
    return times;
  }

 private:
  void note(cudaError_t error) { failed_ |= error != cudaSuccess; }

  std::string name_;
  cudaStream_t stream_ = nullptr;
  std::vector<cudaEvent_t> events_;  // kept for the next laps
  size_t laps_ = 0;
  bool failed_ = false;
};

}  // namespace

std::variant<std::unique_ptr<Place>, std::string> gpu_place(int number) {
  int devices = 0;
  if (cudaError_t e = cudaGetDeviceCount(&devices); e != cudaSuccess || devices == 0)
    return fmt::format("no GPU can be used: {}", e == cudaSuccess ? "the driver lists none" : cudaGetErrorString(e));
  const int device = number % devices;
  cudaDeviceProp properties{};
  cudaError_t e = cudaSetDevice(device);
  if (e == cudaSuccess) e = cudaGetDeviceProperties(&properties, device);
  if (e != cudaSuccess) return fmt::format("GPU {} cannot be used: {}", device, cudaGetErrorString(e));
  auto place = std::make_unique<GpuPlace>(fmt::format("GPU {} {}", device, properties.name));
  if (e = place->create(); e != cudaSuccess)
    return fmt::format("GPU {} gives no stream: {}", device, cudaGetErrorString(e));
  return std::unique_ptr<Place>(std::move(place));
}

}  // namespace twohop::perf
