// See trace.hpp.
#include "collectives/exec/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file_name.hpp"
#include "base/log.hpp"
#include "collectives/plan/schedule.hpp"

namespace twohop {
namespace {

constexpr size_t kMaxEvents = 1 << 19;  // 24 MiB
constexpr int kWireTracks = 1 << 16;    // thread ids of wires begin here

const char* name_of(Trace::Kind kind) {
  switch (kind) {
    case Trace::Kind::kCopy:
      return "Copy";
    case Trace::Kind::kReduce:
      return "Reduce";
    case Trace::Kind::kWaited:
      return "wait";
    case Trace::Kind::kPut:
      return "put";
    case Trace::Kind::kArrived:
      return "arrived";
    case Trace::Kind::kCall:
      return "call";
  }
  return "?";
}

int lane_track(const Trace::Event& e) {
  return 1 + e.channel * 256 + e.lane;
}

double to_us(uint64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// A rank's second communicator must not write over the first one's file: "t0.json", "t0.2.json", ...
std::string unused_in_this_process(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, int> used;
  const std::lock_guard lock(mutex);
  const int times = ++used[name];
  if (times == 1) return name;
  const std::filesystem::path path(name);
  std::filesystem::path numbered = path;
  numbered.replace_extension(fmt::format("{}{}", times, path.extension().string()));
  return numbered;
}

}  // namespace

Result<std::unique_ptr<Trace>> Trace::open(const std::string& pattern, int rank, const std::string& comm_name) {
  if (pattern.find("%r") == std::string::npos && pattern.find("%p") == std::string::npos)
    return make_error(twohopInvalidArgument,
                      "TWOHOP_TRACE={}: every rank writes a file, so its name must have %r (the rank) or %p (the "
                      "process) in it, as in trace-%r.json",
                      pattern);
  const std::string name = unused_in_this_process(expand_file_name(pattern, rank));
  std::FILE* file = std::fopen(name.c_str(), "we");
  if (!file) return system_error(errno, "TWOHOP_TRACE={}: {} cannot be written", pattern, name);
  return std::unique_ptr<Trace>(new Trace(file, name, rank, comm_name));
}

Trace::Trace(std::FILE* file, std::string name, int rank, std::string comm_name)
    : file_(file), name_(std::move(name)), rank_(rank), comm_name_(std::move(comm_name)) {
  events_.reserve(kMaxEvents);
}

Trace::~Trace() {
  write();
  const bool failed = std::ferror(file_) != 0;
  if (std::fclose(file_) != 0 || failed) log_warn("TWOHOP_TRACE: {} is not complete: {}", name_, std::strerror(errno));
  if (left_out_ > 0)
    log_warn("TWOHOP_TRACE: {} holds the first {} events; {} more were left out", name_, events_.size(), left_out_);
}

uint64_t Trace::now_ns() {
  using namespace std::chrono;
  return static_cast<uint64_t>(duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count());
}

void Trace::watch_links(Endpoint* endpoint, size_t out_links, size_t in_links) {
  endpoint_ = endpoint;
  out_.resize(out_links);
  arrived_.resize(in_links);
  for (size_t i = 0; i < out_links; ++i) {
    const OutLink& link = endpoint->out(i);
    out_[i].posted = link.posted;
    out_[i].sent = link.sent;
    out_[i].puts.resize(link.max_in_flight);
    out_ids_.push_back(link.id);
    out_rails_.push_back(fmt::format("{}", fmt::join(endpoint->rails_of(i), ",")));
  }
  for (size_t i = 0; i < in_links; ++i) {
    arrived_[i] = endpoint->in(i).arrived;
    in_ids_.push_back(endpoint->in(i).id);
  }
}

void Trace::add(const Event& event) {
  if (events_.size() < kMaxEvents)
    events_.push_back(event);
  else
    ++left_out_;
}

void Trace::put(size_t link, uint64_t bytes) {
  OutWatch& out = out_[link];
  out.puts[out.posted++ % out.puts.size()] = {now_ns(), bytes};
}

void Trace::look_at_links() {
  if (!endpoint_) return;
  uint64_t now = 0;
  auto time = [&now] { return now = now ? now : now_ns(); };
  for (size_t i = 0; i < out_.size(); ++i)
    for (OutWatch& out = out_[i]; out.sent < endpoint_->out(i).sent; ++out.sent) {
      const PostedPut& put = out.puts[out.sent % out.puts.size()];
      add({.begin_ns = put.at_ns,
           .duration_ns = time() - put.at_ns,
           .bytes = put.bytes,
           .number = out.sent,
           .kind = Kind::kPut,
           .channel = out_ids_[i].channel,
           .link = static_cast<uint32_t>(i)});
    }
  for (size_t i = 0; i < arrived_.size(); ++i)
    for (; arrived_[i] < endpoint_->in(i).arrived; ++arrived_[i])
      add({.begin_ns = time(),
           .number = arrived_[i],
           .kind = Kind::kArrived,
           .channel = in_ids_[i].channel,
           .link = static_cast<uint32_t>(i)});
}

// ---- The file ----------------------------------------------------------------------------------------------------

void Trace::write() {
  print(
      "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"rank\":{},\"communicator\":{},\"left_out\":{}}},\n"
      "\"traceEvents\":[",
      rank_, json_text(comm_name_), left_out_);
  write_names();
  for (const Event& e : events_) write_event(e);
  print("\n]}}\n");
}

void Trace::write_names() {
  auto name = [this](const char* what, int track, const std::string& text) {
    print("{}\n{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}", first_ ? "" : ",",
          what, rank_, track, json_text(text));
    first_ = false;
  };
  name("process_name", 0, fmt::format("rank {}{}{}", rank_, comm_name_.empty() ? "" : " of ", comm_name_));
  name("thread_name", 0, "calls");
  std::set<int> tracks;
  for (const Event& e : events_) {
    if (e.kind > Kind::kWaited) continue;
    if (tracks.insert(lane_track(e)).second)
      name("thread_name", lane_track(e), fmt::format("channel {} lane {}", e.channel, e.lane));
  }
  for (size_t i = 0; i < in_ids_.size(); ++i)
    name("thread_name", kWireTracks + static_cast<int>(i),
         fmt::format("channel {} from rank {}", in_ids_[i].channel, in_ids_[i].src));
}

void Trace::write_event(const Event& e) {
  std::fputc(',', file_);
  if (e.kind == Kind::kPut) return write_put(e);
  print("\n{{\"name\":\"{}\",\"pid\":{},\"ts\":{:.3f},", name_of(e.kind), rank_, to_us(e.begin_ns));
  switch (e.kind) {
    case Kind::kArrived:
      print("\"ph\":\"i\",\"s\":\"t\",\"cat\":\"wire\",\"tid\":{},\"args\":{{\"put\":{}}}}}",
            kWireTracks + static_cast<int>(e.link), e.number);
      break;
    case Kind::kCall:
      print("\"ph\":\"X\",\"cat\":\"call\",\"tid\":0,\"dur\":{:.3f},\"args\":{{\"call\":{},\"bytes\":{}}}}}",
            to_us(e.duration_ns), e.number, e.bytes);
      break;
    case Kind::kWaited:
      print("\"ph\":\"X\",\"cat\":\"wait\",\"tid\":{},\"dur\":{:.3f},\"args\":{{\"for\":\"{}\",\"round\":{}}}}}",
            lane_track(e), to_us(e.duration_ns), step_name(static_cast<StepKind>(e.waited_for)), e.number);
      break;
    default:
      print(
          "\"ph\":\"X\",\"cat\":\"node\",\"tid\":{},\"dur\":{:.3f},\"args\":{{\"round\":{},\"shard\":{},\"chunk\":{},"
          "\"bytes\":{}}}}}",
          lane_track(e), to_us(e.duration_ns), e.number, e.shard, e.chunk, e.bytes);
  }
}

/// Puts of a link overlap, which only pairs of asynchronous events can say.
void Trace::write_put(const Event& e) {
  const LinkId& id = out_ids_[e.link];
  const std::string head =
      fmt::format("{{\"name\":\"channel {} to rank {}\",\"cat\":\"wire\",\"pid\":{},\"tid\":0,\"id\":\"{}.{}.{}\",",
                  id.channel, id.dst, rank_, rank_, e.link, e.number);
  print(
      "\n{}\"ph\":\"b\",\"ts\":{:.3f},\"args\":{{\"put\":{},\"bytes\":{},\"channel\":{},\"to\":{},\"rails\":[{}]}}}},",
      head, to_us(e.begin_ns), e.number, e.bytes, id.channel, id.dst, out_rails_[e.link]);
  print("\n{}\"ph\":\"e\",\"ts\":{:.3f}}}", head, to_us(e.begin_ns + e.duration_ns));
}

}  // namespace twohop
