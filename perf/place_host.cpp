// The host as the place of a run.
#include <chrono>
#include <cstring>
#include <new>

#include "place.hpp"

namespace twohop::perf {
namespace {

constexpr std::align_val_t kAlign{4096};

class HostPlace : public Place {
 public:
  bool on_gpu() const override { return false; }
  std::string name() const override { return "host memory"; }
  unsigned char* allocate(size_t bytes) override {
    auto* memory = new (kAlign) unsigned char[bytes];
    std::memset(memory, 0, bytes);  // touched here, by the thread that uses it
    return memory;
  }
  void free(unsigned char* memory) override { operator delete[](memory, kAlign); }
  void write(unsigned char* to, const unsigned char* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void read(unsigned char* to, const unsigned char* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  twohopStream_t stream() const override { return nullptr; }
  bool wait() override { return true; }
  void lap() override { laps_.push_back(std::chrono::steady_clock::now()); }
  std::vector<double> take_laps() override {
    std::vector<double> times;
    for (size_t i = 1; i < laps_.size(); ++i)
      times.push_back(std::chrono::duration<double, std::micro>(laps_[i] - laps_[i - 1]).count());
    laps_.clear();
    return times;
  }

 private:
  std::vector<std::chrono::steady_clock::time_point> laps_;
};

}  // namespace

std::unique_ptr<Place> host_place() {
  return std::make_unique<HostPlace>();
}

}  // namespace twohop::perf
