// See trace_file.hpp. Events are taken as the parser meets them, so that a file of half a million needs no tree of them.
#include "trace_file.hpp"

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace twohop::cli {
namespace {

using Json = nlohmann::json;
constexpr int kEventDepth = 2;  // file, list of events, event
constexpr size_t kMostRails = 64;

class Reader {
 public:
  /// For the parser: false drops what was taken.
  bool meet(int depth, Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::key && depth == 1) in_events_ = value == "traceEvents";
    if (!in_events_ || depth != kEventDepth || event != Json::parse_event_t::object_end) return true;
    take(value);
    return false;
  }

  Result<TraceFile> finish(const Json& rest) {
    file_.rank = rest.at("otherData").at("rank").get<int>();
    file_.left_out = rest.at("otherData").at("left_out").get<uint64_t>();
    if (!open_.empty())
      return make_error(twohopInvalidArgument, "put \"{:.40}\" begins and does not end", open_.begin()->first);
    return std::move(file_);
  }

 private:
  static double time(const Json& value) {
    const auto us = value.get<double>();
    if (!std::isfinite(us) || us < 0) throw std::runtime_error("a time is no number of microseconds");
    return us;
  }
  static Span span_of(const Json& e) {
    const double begin = time(e.at("ts"));
    return {begin, begin + time(e.at("dur"))};
  }

  void take(const Json& e) {
    const auto phase = e.at("ph").get<std::string>();
    if (phase == "X") take_span(e);
    if (phase == "b") begin_put(e);
    if (phase == "e") end_put(e);
  }
  void take_span(const Json& e) {
    const auto name = e.at("name").get<std::string>();
    const Json& args = e.at("args");
    if (name == "call")
      file_.calls.push_back({span_of(e), args.at("call").get<uint64_t>(), args.at("bytes").get<uint64_t>()});
    if (name == "Copy") file_.work.push_back({span_of(e), TracedWork::Kind::kCopy});
    if (name == "Reduce") file_.work.push_back({span_of(e), TracedWork::Kind::kReduce});
    if (name == "wait") file_.work.push_back({span_of(e), TracedWork::Kind::kWait});
  }
  void begin_put(const Json& e) {
    const Json& args = e.at("args");
    TracedPut put;
    put.span.begin_us = time(e.at("ts"));
    put.channel = args.at("channel").get<int>();
    put.bytes = args.at("bytes").get<uint64_t>();
    put.rails = args.at("rails").get<std::vector<int>>();
    if (put.rails.size() > kMostRails) throw std::runtime_error("a put goes over too many rails");
    if (!open_.emplace(e.at("id").get<std::string>(), put).second) throw std::runtime_error("a put begins twice");
  }
  void end_put(const Json& e) {
    auto at = open_.find(e.at("id").get<std::string>());
    if (at == open_.end()) throw std::runtime_error("a put ends that has not begun");
    at->second.span.end_us = std::max(at->second.span.begin_us, time(e.at("ts")));
    file_.puts.push_back(std::move(at->second));
    open_.erase(at);
  }

  TraceFile file_;
  std::map<std::string, TracedPut> open_;
  bool in_events_ = false;
};

}  // namespace

Result<TraceFile> read_trace(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) return system_error(errno, "{}: cannot be read", path);
  try {
    Reader reader;
    const Json rest = Json::parse(stream, [&](int depth, Json::parse_event_t event, Json& value) {
      return reader.meet(depth, event, value);
    });
    auto file = reader.finish(rest);
    if (file) return file;
    return make_error(twohopInvalidArgument, "{}: {}; is it complete?", path, file.error().message);
  } catch (const std::exception& e) {
    return make_error(twohopInvalidArgument, "{}: not a file that TWOHOP_TRACE of this version wrote: {}", path,
                      e.what());
  }
}

}  // namespace twohop::cli
