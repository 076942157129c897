// Trace: when did each step of a rank's calls run, when did it wait, when was data on the wire? Written as Chrome's
// trace format (Perfetto reads it), one file per rank.
//
// Recording appends to an array that is allocated once; when that is full, later events are counted and left out. The
// file is opened first, so that a name that cannot be written is an error before anything runs, and written by the
// destructor. Times are the host's clock: files of ranks of one host fit together, of several as well as their clocks.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "transport/endpoint.hpp"

namespace twohop {

class Trace {
 public:
  enum class Kind : uint8_t { kCopy, kReduce, kWaited, kPut, kArrived, kCall };

  struct Event {
    uint64_t begin_ns = 0, duration_ns = 0;
    uint64_t bytes = 0;   // of copies, reductions, puts and calls
    uint64_t number = 0;  // kCall: of the call; kPut, kArrived: of the put on its link; else: round
    Kind kind = Kind::kCall;
    uint8_t waited_for = 0;  // kWaited: a StepKind
    uint16_t channel = 0;
    uint16_t lane = 0;   // of steps
    uint16_t shard = 0;  // of steps
    uint32_t chunk = 0;  // of steps
    uint32_t link = 0;   // of puts and arrivals: index in the endpoint
  };

  static Result<std::unique_ptr<Trace>> open(const std::string& pattern, int rank, const std::string& comm_name);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  static uint64_t now_ns();

  /// The links, once they are connected; null when there are none.
  void watch_links(Endpoint* endpoint, size_t out_links, size_t in_links);
  void add(const Event& event);
  /// A put of so many bytes was just appended to an out link.
  void put(size_t link, uint64_t bytes);
  /// Looks which puts have been sent and which have arrived since the last look.
  void look_at_links();

 private:
  struct PostedPut {
    uint64_t at_ns = 0, bytes = 0;
  };
  struct OutWatch {
    uint64_t posted = 0, sent = 0;
    std::vector<PostedPut> puts;  // ring, by number modulo its size
  };

  Trace(std::FILE* file, std::string name, int rank, std::string comm_name);
  void write();
  void write_names();
  void write_event(const Event& event);
  void write_put(const Event& event);
  /// A file that cannot be written is noticed at the end (fmt::print would throw).
  template <class... Args>
  void print(fmt::format_string<Args...> f, Args&&... args) {
    const std::string text = fmt::format(f, std::forward<Args>(args)...);
    std::fwrite(text.data(), 1, text.size(), file_);
  }

  std::FILE* file_;
  std::string name_;
  int rank_;
  std::string comm_name_;
  std::vector<Event> events_;
  uint64_t left_out_ = 0;
  bool first_ = true;

  Endpoint* endpoint_ = nullptr;
  std::vector<OutWatch> out_;
  std::vector<uint64_t> arrived_;
  std::vector<LinkId> out_ids_, in_ids_;
  std::vector<std::string> out_rails_;  // numbers with commas
};

}  // namespace twohop
