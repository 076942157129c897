// Where do the buffers of a run lie, on which stream are its calls made, and by which clock are they timed? Host memory
// and the host's clock; or, with --device, a GPU's memory, a stream of its own and its events.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "twohop/twohop.h"

namespace twohop::perf {

class Place {
 public:
  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  virtual ~Place() = default;

  virtual bool on_gpu() const = 0;
  /// "host memory", "GPU 1 NVIDIA H100 80GB HBM3".
  virtual std::string name() const = 0;

  /// Zeroed, aligned to 4096. Throws std::bad_alloc.
  virtual unsigned char* allocate(size_t bytes) = 0;
  virtual void free(unsigned char* memory) = 0;
  /// Between a place's memory and ordinary memory; done on return. Pre: no call uses it.
  virtual void write(unsigned char* to, const unsigned char* from, size_t bytes) = 0;
  virtual void read(unsigned char* to, const unsigned char* from, size_t bytes) = 0;

  /// NULL: calls block.
  virtual twohopStream_t stream() const = 0;
  /// Until all calls on the stream are done. False: one has failed.
  virtual bool wait() = 0;

  /// Marks a moment: on a GPU, when the calls before have ended.
  virtual void lap() = 0;
  /// The times between the laps since the last take_laps(), in us; waits for the last one.
  virtual std::vector<double> take_laps() = 0;
};

std::unique_ptr<Place> host_place();
/// The GPU of this number, counted round, which becomes the thread's. The string says why there is none.
std::variant<std::unique_ptr<Place>, std::string> gpu_place(int number);

}  // namespace twohop::perf
