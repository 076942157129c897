// CheckedEndpoint: are the bytes in an inbox those that the sender's source held? TWOHOP_CHECK=1 puts it around the
// endpoint of whatever network; without the variable it does not exist.
//
// Every link has a second one beside it, over which each put sends a record: its call tag, where its runs go, and a
// checksum of every piece of them, taken from the source before the network sees it. A put counts as arrived when both
// are here and the inbox, read again by the processor, has the same sums. A difference ends the communicator with an
// error that names the bytes, the sender and what carried them.
#pragma once

#include <optional>
#include <vector>

#include "transport/endpoint.hpp"

namespace twohop {

// Memory of GPUs is not registered through it: checksums are the processor's, so data of GPUs goes by the windows.

/// What travels beside a put. Little-endian. All of it comes from outside.
struct CheckRecord {
  static constexpr size_t kMaxPieces = 32;
  struct Run {
    uint64_t inbox_offset, bytes;
  };
  uint8_t version;
  uint8_t runs_used;
  uint8_t reserved[6];
  uint64_t put;  // its number on the link, from 1
  uint64_t call, signature;
  Run runs[2];
  uint64_t sums[kMaxPieces];  // of the runs laid end to end, cut into pieces of piece_bytes()
  uint64_t own;               // of everything before it
};
static_assert(sizeof(CheckRecord) == 328);

/// How long the pieces of a put of `bytes` are, but for its last.
uint64_t check_piece_bytes(uint64_t bytes);

class CheckedEndpoint final : public Endpoint {
 public:
  explicit CheckedEndpoint(std::unique_ptr<Endpoint> inner) : inner_(std::move(inner)) {}

  const char* name() const override { return inner_->name(); }
  int default_channels() const override { return inner_->default_channels(); }
  Result<> register_memory(std::span<std::byte> memory) override { return inner_->register_memory(memory); }
  Result<std::string> register_gpu_memory(const GpuRegion&, bool) override {
    return make_error(twohopInvalidUsage, "TWOHOP_CHECK=1 reads all data by the CPU, which does not reach GPU memory");
  }
  Result<> register_user_memory(std::span<std::byte> memory) override { return inner_->register_user_memory(memory); }
  void deregister_user_memory(std::span<std::byte> memory) override { inner_->deregister_user_memory(memory); }
  Bytes address() const override { return inner_->address(); }
  /// The tags of the links must be below 2^15: the rest names the links of the records.
  Result<> connect(std::vector<OutLink> out, std::vector<InLink> in, std::span<const Bytes> all_addresses,
                   Deadline deadline, int stop_fd) override;
  OutLink& out(size_t i) override { return out_[i]; }
  InLink& in(size_t i) override { return in_[i]; }

  void put(size_t out_link, const CallTag& tag, std::span<const PutRun> runs) override;
  void release(size_t in_link) override;
  Result<> flush() override;
  void limit_batch(uint32_t requests) override { inner_->limit_batch(requests); }
  Result<bool> poll() override;
  bool output_pending() const override { return inner_->output_pending(); }
  void wait_for(std::vector<pollfd>& fds) override { inner_->wait_for(fds); }
  Result<> drain(Deadline deadline) override { return inner_->drain(deadline); }

  int attention_fd() const override { return inner_->attention_fd(); }
  bool serve_between_calls() override { return inner_->serve_between_calls(); }

  EndpointCounters counters() const override { return inner_->counters(); }
  std::vector<int> own_rails() const override { return inner_->own_rails(); }
  std::vector<RailStatus> rail_status() const override { return inner_->rail_status(); }
  std::vector<size_t> rails_of(size_t out_link) const override { return inner_->rails_of(out_link); }
  Carrier carrier_of(size_t in_link, uint64_t put, uint64_t bytes, uint64_t begin, uint64_t end) const override {
    return inner_->carrier_of(in_link, put, bytes, begin, end);
  }

 private:
  void take_counts();
  Result<> accept_arrivals(size_t in_link);
  Result<> check(size_t in_link, uint64_t put, const CheckRecord& record) const;
  Error damaged(size_t in_link, uint64_t put, uint64_t bytes, uint64_t begin, uint64_t end) const;
  Error damaged_record(size_t in_link, uint64_t put) const;

  std::vector<CheckRecord> sources_, received_;  // kMaxPutsInFlight of each link
  std::unique_ptr<Endpoint> inner_;              // its links: ours, then those of the records
  std::vector<OutLink> out_;
  std::vector<InLink> in_;
  std::optional<Error> dead_;
};

}  // namespace twohop
