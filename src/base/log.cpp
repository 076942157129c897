// Where does a log line go, and in what shape? One spdlog sink per process, opened at the first question.
#include "base/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "base/file_name.hpp"
#include "base/options.hpp"

namespace twohop {
namespace {

// TWOHOP_DEBUG's words, which the options table has checked; VERSION asks for the version line and errors.
LogLevel level_of(std::string_view debug) {
  constexpr std::array<std::pair<std::string_view, LogLevel>, 6> kWords = {{{"NONE", LogLevel::kNone},
                                                                            {"VERSION", LogLevel::kError},
                                                                            {"WARN", LogLevel::kWarn},
                                                                            {"INFO", LogLevel::kInfo},
                                                                            {"DEBUG", LogLevel::kDebug},
                                                                            {"TRACE", LogLevel::kTrace}}};
  for (auto [word, level] : kWords)
    if (word == debug) return level;
  return LogLevel::kWarn;
}

std::string_view word_of(LogLevel level) {
  constexpr std::array<std::string_view, 6> kWords = {"NONE", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"};
  return kWords[static_cast<size_t>(level)];
}

/// A file, until it cannot be written: then stderr, which is told why once and whatever the level is.
class FileOrStderr : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileOrStderr(const std::string& pattern) : pattern_(pattern) {
    try {
      file_ = std::make_unique<spdlog::sinks::basic_file_sink_st>(expand_file_name(pattern));
    } catch (const spdlog::spdlog_ex& e) {
      complain(e.what());
    }
  }

 protected:
  // A line counts as written when it is flushed: it is seldom, and the next one may be too late to notice.
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (file_ && write_to_file(message)) return;
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
  void flush_() override {}
  void set_formatter_(std::unique_ptr<spdlog::formatter> formatter) override {
    if (file_) file_->set_formatter(formatter->clone());
    base_sink::set_formatter_(std::move(formatter));
  }

 private:
  bool write_to_file(const spdlog::details::log_msg& message) {
    try {
      file_->log(message);
      file_->flush();
      return true;
    } catch (const spdlog::spdlog_ex& e) {
      file_.reset();
      complain(e.what());
      return false;
    }
  }

  void complain(const char* why) const {
    const std::string text = fmt::format("{}:{} twohop WARN TWOHOP_DEBUG_FILE={}: {}; logging to stderr\n", host_name(),
                                         getpid(), pattern_, why);
    std::fputs(text.c_str(), stderr);  // fmt::print would throw where stderr is closed
  }

  std::string pattern_;
  std::unique_ptr<spdlog::sinks::basic_file_sink_st> file_;
};

class Log {
 public:
  static Log& get() {
    static Log* log = new Log(options_even_if_wrong());  // never freed: other threads may log while we exit
    return *log;
  }

  bool enabled(LogLevel level) const { return level <= level_ && level != LogLevel::kNone; }
  void line(LogLevel level, std::string_view text) { logger_->info("{} {}", word_of(level), text); }

 private:
  explicit Log(const Options& options) : level_(level_of(options.debug)) {
    open(options.debug_file);
    if (options.debug == "VERSION" || level_ >= LogLevel::kInfo)
      line(LogLevel::kInfo, fmt::format("version {}.{}.{}", TWOHOP_MAJOR, TWOHOP_MINOR, TWOHOP_PATCH));
  }

  void open(const std::string& pattern) {
    spdlog::sink_ptr sink;
    if (pattern.empty())
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    else
      sink = std::make_shared<FileOrStderr>(pattern);
    logger_ = std::make_unique<spdlog::logger>("twohop", std::move(sink));
    logger_->set_level(spdlog::level::trace);
    logger_->flush_on(spdlog::level::trace);
    // %P is asked for at each line, so that a forked process signs with its own number.
    logger_->set_pattern(replace_all(host_name(), "%", "%%") + ":%P twohop %v");
  }

  LogLevel level_;
  std::unique_ptr<spdlog::logger> logger_;
};

}  // namespace

bool log_enabled(LogLevel level) {
  return Log::get().enabled(level);
}
void log_line(LogLevel level, std::string_view text) {
  Log::get().line(level, text);
}

}  // namespace twohop
