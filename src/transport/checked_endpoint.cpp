// See checked_endpoint.hpp.
#include "transport/checked_endpoint.hpp"

#include <algorithm>
#include <cstring>

// Header only: the library needs nothing at run time.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.hpp"
#include "base/log.hpp"

namespace twohop {
namespace {

constexpr uint8_t kRecordVersion = 1;
constexpr uint16_t kRecordTag = 1 << 15;
constexpr uint64_t kPieceAlign = 4096;

template <class Link>
Link record_link(const Link& of) {
  Link link;
  link.id = of.id;
  link.id.tag |= kRecordTag;
  link.max_in_flight = of.max_in_flight;
  return link;
}

size_t slot_of(size_t link, uint64_t put) {
  return link * kMaxPutsInFlight + (put - 1) % kMaxPutsInFlight;
}

uint64_t own_sum(const CheckRecord& r) {
  return htole64(XXH3_64bits(&r, offsetof(CheckRecord, own)));
}

struct Piece {
  const std::byte* at;
  uint64_t bytes;
};

/// Of the bytes [begin, end) of two runs laid end to end.
uint64_t sum_of(std::span<const Piece> runs, uint64_t begin, uint64_t end) {
  uint64_t sum = 0, at = 0;
  for (const Piece& run : runs) {
    const uint64_t from = std::max(at, begin), to = std::min(at + run.bytes, end);
    if (from < to) sum = XXH3_64bits_withSeed(run.at + (from - at), to - from, sum);
    at += run.bytes;
  }
  return sum;
}

uint64_t total(std::span<const Piece> runs) {
  uint64_t bytes = 0;
  for (const Piece& run : runs) bytes += run.bytes;
  return bytes;
}

}  // namespace

uint64_t check_piece_bytes(uint64_t bytes) {
  const uint64_t least = (bytes + CheckRecord::kMaxPieces - 1) / CheckRecord::kMaxPieces;
  return std::max<uint64_t>(1, (least + kPieceAlign - 1) / kPieceAlign) * kPieceAlign;
}

Result<> CheckedEndpoint::connect(std::vector<OutLink> out, std::vector<InLink> in,
                                  std::span<const Bytes> all_addresses, Deadline deadline, int stop_fd) {
  out_ = out;
  in_ = in;
  sources_.resize(out.size() * kMaxPutsInFlight);
  received_.resize(in.size() * kMaxPutsInFlight);
  for (std::vector<CheckRecord>* records : {&sources_, &received_})
    if (!records->empty())
      if (auto r = inner_->register_memory(std::as_writable_bytes(std::span(*records))); !r) return r;
  for (size_t i = 0; i < out_.size(); ++i) {
    TWOHOP_CHECK(out_[i].id.tag < kRecordTag, "link tag {}", out_[i].id.tag);
    out.push_back(record_link(out_[i]));
    out.back().inbox_bytes = kMaxPutsInFlight * sizeof(CheckRecord);
  }
  for (size_t i = 0; i < in_.size(); ++i) {
    in.push_back(record_link(in_[i]));
    in.back().inbox = std::as_writable_bytes(std::span(received_).subspan(i * kMaxPutsInFlight, kMaxPutsInFlight));
  }
  return inner_->connect(std::move(out), std::move(in), all_addresses, deadline, stop_fd);
}

void CheckedEndpoint::put(size_t out_link, const CallTag& tag, std::span<const PutRun> runs) {
  const uint64_t number = ++out_[out_link].posted;
  CheckRecord& record = sources_[slot_of(out_link, number)];
  record = {};
  record.version = kRecordVersion;
  record.runs_used = static_cast<uint8_t>(runs.size());
  record.put = htole64(number);
  record.call = htole64(tag.call);
  record.signature = htole64(tag.signature);
  Piece pieces[2] = {};
  TWOHOP_CHECK(runs.size() <= std::size(pieces), "{} runs", runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    record.runs[i] = {htole64(runs[i].inbox_offset), htole64(runs[i].bytes)};
    pieces[i] = {static_cast<const std::byte*>(runs[i].source), runs[i].bytes};
  }
  const uint64_t bytes = total(pieces), step = check_piece_bytes(bytes);
  for (uint64_t begin = 0; begin < bytes; begin += step)
    record.sums[begin / step] = htole64(sum_of(pieces, begin, std::min(bytes, begin + step)));
  record.own = own_sum(record);
  const PutRun run{&record, (number - 1) % kMaxPutsInFlight * sizeof record, sizeof record};
  inner_->put(out_.size() + out_link, tag, {&run, 1});
  inner_->put(out_link, tag, runs);
}

void CheckedEndpoint::release(size_t in_link) {
  ++in_[in_link].released;
  inner_->release(in_.size() + in_link);
  inner_->release(in_link);
}

Result<> CheckedEndpoint::flush() {
  if (dead_) return *dead_;
  return inner_->flush();
}

Result<bool> CheckedEndpoint::poll() {
  if (dead_) return *dead_;
  auto changed = inner_->poll();
  if (!changed) return changed;
  if (*changed) take_counts();
  for (size_t i = 0; *changed && i < in_.size(); ++i)
    if (auto r = accept_arrivals(i); !r) {
      dead_ = r.error();
      return *dead_;
    }
  return changed;
}

void CheckedEndpoint::take_counts() {
  for (size_t i = 0; i < out_.size(); ++i) {
    const OutLink &data = inner_->out(i), &record = inner_->out(out_.size() + i);
    out_[i].sent = std::min(data.sent, record.sent);
    out_[i].consumed = std::min(data.consumed, record.consumed);
    out_[i].peer_left = data.peer_left;
  }
}

Result<> CheckedEndpoint::accept_arrivals(size_t in_link) {
  InLink& link = in_[in_link];
  const InLink& data = inner_->in(in_link);
  const uint64_t arrived = std::min(data.arrived, inner_->in(in_.size() + in_link).arrived);
  while (link.arrived < arrived) {
    const CheckRecord& record = received_[slot_of(in_link, link.arrived + 1)];
    if (auto r = check(in_link, link.arrived + 1, record); !r) return r;
    // The tag too is the record's, since that is checked.
    const CallTag tag{le64toh(record.call), le64toh(record.signature)};
    link.tags[tag.call % link.tags.size()] = tag;
    ++link.arrived;
  }
  link.peer_left = data.peer_left;
  return {};
}

Result<> CheckedEndpoint::check(size_t in_link, uint64_t put, const CheckRecord& record) const {
  const InLink& link = in_[in_link];
  if (record.own != own_sum(record) || record.version != kRecordVersion || le64toh(record.put) != put ||
      record.runs_used > std::size(record.runs))
    return damaged_record(in_link, put);
  Piece pieces[2] = {};
  for (size_t i = 0; i < record.runs_used; ++i) {
    const uint64_t offset = le64toh(record.runs[i].inbox_offset), bytes = le64toh(record.runs[i].bytes);
    if (bytes > link.inbox.size() || offset > link.inbox.size() - bytes) return damaged_record(in_link, put);
    pieces[i] = {link.inbox.data() + offset, bytes};
  }
  const uint64_t bytes = total(pieces), step = check_piece_bytes(bytes);
  for (uint64_t begin = 0; begin < bytes; begin += step) {
    const uint64_t end = std::min(bytes, begin + step);
    if (htole64(sum_of(pieces, begin, end)) != record.sums[begin / step])
      return damaged(in_link, put, bytes, begin, end);
  }
  return {};
}

Error CheckedEndpoint::damaged(size_t in_link, uint64_t put, uint64_t bytes, uint64_t begin, uint64_t end) const {
  const LinkId& id = in_[in_link].id;
  const Carrier carrier = inner_->carrier_of(in_link, put, bytes, begin, end);
  Error e = make_error(twohopRemoteError,
                       "TWOHOP_CHECK: bytes {} to {} of put {} ({} bytes, channel {}, link tag {}) are not those that "
                       "rank {} sent. They "
                       "came by {}. The sums of this call "
                       "are not to be trusted: take that rail or host out of use (TWOHOP_IB_HCA=^...), then test its "
                       "memory, PCIe slot, cable and switch port",
                       begin, end - 1, put, bytes, id.channel, id.tag, id.src, carrier.name);
  e.scope = carrier.rail >= 0 ? Scope::kRail : Scope::kPeer;
  e.rank = id.src;
  e.rail = carrier.rail;
  return e;
}

Error CheckedEndpoint::damaged_record(size_t in_link, uint64_t put) const {
  const size_t records = in_.size() + in_link;
  Error e = damaged(in_link, put, 1, 0, 1);
  const Carrier carrier = inner_->carrier_of(records, put, sizeof(CheckRecord), 0, sizeof(CheckRecord));
  e.message = fmt::format(
      "TWOHOP_CHECK: the record of checksums of put {} (channel {}, link tag {}) from rank {} is damaged itself. It "
      "came "
      "by {}. Take that rail or host out of use (TWOHOP_IB_HCA=^...), then test its memory, PCIe slot, cable and "
      "switch "
      "port",
      put, in_[in_link].id.channel, in_[in_link].id.tag, in_[in_link].id.src, carrier.name);
  e.rail = carrier.rail;
  return e;
}

}  // namespace twohop
