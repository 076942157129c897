// What is logged, at info level, until text() is asked for. Set before the first line, since the log opens once.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <optional>
#include <string>

namespace twohop::test {

inline const bool kLogsInfo = ::setenv("TWOHOP_DEBUG", "INFO", 0) == 0;

class CapturedLog {
 public:
  CapturedLog() { ::testing::internal::CaptureStderr(); }
  ~CapturedLog() { (void)text(); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  const std::string& text() const {
    if (!text_) text_ = ::testing::internal::GetCapturedStderr();
    return *text_;
  }

 private:
  mutable std::optional<std::string> text_;
};

}  // namespace twohop::test
