// Which events does a port count? The names are those of the kernel's hw_counters (rxe's and mlx5's) and counters
// folders.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace softnic {

enum class Counter : unsigned {
  // hw_counters, the names of rxe
  kSentPkts,
  kRcvdPkts,
  kDuplicateRequest,
  kOutOfSeqRequest,
  kRcvdRnrErr,
  kSendRnrErr,
  kRcvdSeqErr,
  kRetryExceededErr,
  kRetryRnrExceededErr,
  kCompleterRetryErr,
  kLinkDowned,
  kRdmaSends,
  kRdmaRecvs,
  // hw_counters, the names of mlx5
  kLocalAckTimeoutErr,
  kPacketSeqErr,
  kOutOfSequence,
  kRnrNakRetryErr,
  kOutOfBuffer,
  kReqRemoteAccessErrors,
  kRespRemoteAccessErrors,
  kReqRemoteInvalidRequest,
  kReqCqeError,
  kReqCqeFlushError,
  kRespCqeError,
  kRespCqeFlushError,
  kRxWriteRequests,
  kRxReadRequests,
  kRxAtomicRequests,
  // softnic's own
  kDoorbells,
  // counters
  kPortXmitData,
  kPortRcvData,
  kPortXmitPackets,
  kPortRcvPackets,
  kCount
};
constexpr unsigned kCounters = static_cast<unsigned>(Counter::kCount);

// "hw_counters/sent_pkts": the file below ports/1.
std::string_view counter_file(Counter counter);

using CounterValues = std::array<std::atomic<uint64_t>, kCounters>;

// The files of one port, mapped: a counter's text changes with the counter, so that any tool may read it at any time.
class CounterFiles {
 public:
  CounterFiles() = default;
  ~CounterFiles();
  CounterFiles(const CounterFiles&) = delete;
  CounterFiles& operator=(const CounterFiles&) = delete;

  // Creates what is missing below port_folder. A file that cannot be made is only not written.
  void open(const std::string& port_folder, CounterValues* values);
  void add(Counter counter, uint64_t amount);

 private:
  void publish(unsigned index);

  CounterValues* values_ = nullptr;
  std::array<uint64_t*, kCounters> texts_{};
};

// Creates all folders of the path.
void make_folders(const std::string& path);
void write_file(const std::string& path, std::string_view text);

}  // namespace softnic
