// Does a line reach the right place, at the right level, in the promised shape?
//
// The log opens once per process: each test looks at it from a fresh process.
#include "base/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/options.hpp"

namespace twohop {
namespace {

class Log : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// What a process of level `debug` does in the tests below.
void say_everything(const char* debug, const char* file = "") {
  setenv("TWOHOP_DEBUG", debug, 1);
  setenv("TWOHOP_DEBUG_FILE", file, 1);
  log(LogLevel::kError, "e{}", 1);
  log_warn("w{}", 2);
  log_info("i{}", 3);
  log_debug("d{}", 4);
  log(LogLevel::kTrace, "t{}", 5);
  exit(0);
}

// Lines begin with host:pid.
#define LINE "[^\n:]+:[0-9]+ twohop "

TEST_F(Log, PrintsWarningsAndErrorsAtWarn) {
  EXPECT_EXIT(say_everything("WARN"), testing::ExitedWithCode(0), "^" LINE "ERROR e1\n" LINE "WARN w2\n$");
}

TEST_F(Log, PrintsTheVersionFirstAtInfo) {
  EXPECT_EXIT(say_everything("INFO"), testing::ExitedWithCode(0),
              "^" LINE "INFO version [0-9.]+\n" LINE "ERROR e1\n" LINE "WARN w2\n" LINE "INFO i3\n$");
}

TEST_F(Log, PrintsEverythingAtTrace) {
  EXPECT_EXIT(say_everything("TRACE"), testing::ExitedWithCode(0), "INFO i3\n" LINE "DEBUG d4\n" LINE "TRACE t5\n$");
}

TEST_F(Log, PrintsTheVersionAndErrorsOnlyAtVersion) {
  EXPECT_EXIT(say_everything("VERSION"), testing::ExitedWithCode(0),
              "^" LINE "INFO version [0-9.]+\n" LINE "ERROR e1\n$");
}

TEST_F(Log, PrintsNothingAtNone) {
  EXPECT_EXIT(say_everything("NONE"), testing::ExitedWithCode(0), "^$");
}

TEST_F(Log, PrintsTheVersionOnceWhenOnlyTheOptionsWereRead) {
  auto program = [] {
    setenv("TWOHOP_DEBUG", "VERSION", 1);
    bool right = options().has_value() && options().has_value();
    exit(right ? 0 : 1);
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "^" LINE "INFO version [0-9.]+\n$");
}

TEST_F(Log, WritesIntoAFileNamedByHostAndProcess) {
  // Of this run alone, and known to the process that runs this body again.
  setenv("LOG_TEST_FOLDER", (testing::TempDir() + "/twohop_log_test." + std::to_string(getpid())).c_str(), 0);
  const std::filesystem::path folder = std::getenv("LOG_TEST_FOLDER");
  std::filesystem::remove_all(folder);
  std::string pattern = folder.string() + "/log.%h.%p.txt";
  EXPECT_EXIT(say_everything("WARN", pattern.c_str()), testing::ExitedWithCode(0), "^$");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++files;
    EXPECT_THAT(entry.path().filename().string(), testing::MatchesRegex("log\\.[^%]+\\.[0-9]+\\.txt"));
    std::ifstream in(entry.path());
    std::string first_line;
    std::getline(in, first_line);
    EXPECT_THAT(first_line, testing::HasSubstr("twohop ERROR e1"));
  }
  EXPECT_EQ(files, 1);
  std::filesystem::remove_all(folder);
}

TEST_F(Log, FallsBackToStderrWhenTheFileCannotBeOpened) {
  EXPECT_EXIT(say_everything("WARN", "/proc/no/such/folder/log"), testing::ExitedWithCode(0),
              "WARN TWOHOP_DEBUG_FILE=/proc/no/such/folder/log: [^\n]*; logging to stderr\n" LINE "ERROR e1");
}

TEST_F(Log, TellsOfAFileThatCannotBeOpenedWhateverTheLevel) {
  for (const char* level : {"NONE", "VERSION"})
    EXPECT_EXIT(say_everything(level, "/proc/no/such/folder/log"), testing::ExitedWithCode(0),
                "^" LINE "WARN TWOHOP_DEBUG_FILE=/proc/no/such/folder/log: [^\n]*No such file");
}

TEST_F(Log, FallsBackToStderrOnceWhenTheFileCanNoLongerBeWritten) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "needs /dev/full";
  EXPECT_EXIT(say_everything("WARN", "/dev/full"), testing::ExitedWithCode(0),
              "^" LINE "WARN TWOHOP_DEBUG_FILE=/dev/full: [^\n]*No space left on device; logging to stderr\n" LINE
              "ERROR e1\n" LINE "WARN w2\n$");
}

TEST_F(Log, SignsWithTheNumberOfAForkedProcess) {
  auto program = [] {
    log_warn("from {}", getpid());
    pid_t child = fork();
    if (child == 0) {
      log_warn("from {}", getpid());
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    exit(0);
  };
  auto signed_by_its_writer = [](const std::string& lines) {
    int parent = 0, from_parent = 0, child = 0, from_child = 0;
    int found = std::sscanf(lines.c_str(), "%*[^:]:%d twohop WARN from %d %*[^:]:%d twohop WARN from %d", &parent,
                            &from_parent, &child, &from_child);
    return found == 4 && parent == from_parent && child == from_child && parent != child;
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), testing::Truly(signed_by_its_writer));
}

}  // namespace
}  // namespace twohop
