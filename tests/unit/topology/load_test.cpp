// Files of any kind: the right reader by content, and refusals that help.
#include "topology/load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "topology/json.hpp"
#include "unit/topology/files.hpp"

namespace twohop::topology {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& text) {
  const auto machine = parse_machine(text, "t");
  return machine ? "no error" : machine.error().message;
}

SourceKind kind_of(const std::string& text) {
  const auto machine = parse_machine(text, "t");
  EXPECT_TRUE(machine) << machine.error().message;
  return machine ? machine->kind : SourceKind::kLive;
}

class Scratch {
 public:
  Scratch() { std::filesystem::create_directories(path_); }
  ~Scratch() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }
  std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("twohop_load_test_" + std::to_string(::getpid()));
};

TEST(Load, ChoosesTheReaderByContent) {
  EXPECT_EQ(kind_of("\xef\xbb\xbf\n <?xml version=\"1.0\"?><!-- c --><system/>"), SourceKind::kNcclXml);
  EXPECT_EQ(kind_of("<!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology version=\"2.0\"/>"), SourceKind::kHwlocXml);
  EXPECT_EQ(kind_of("\tGPU0\tNIC0\nGPU0\t X \tPIX\n"), SourceKind::kMatrix);
  EXPECT_EQ(kind_of("CA 'mlx5_0'\nPort 1:\n"), SourceKind::kDeviceInfo);
  Machine live;
  live.source = "this machine";
  EXPECT_EQ(kind_of(write_json(live)), SourceKind::kLive);
}

TEST(Load, SaysWhatIsAcceptedInsteadOfWhatItGot) {
  EXPECT_THAT(error_of(""), HasSubstr("t: the file is empty; accepted are NCCL topology XML"));
  EXPECT_THAT(error_of("\n \t\r\n"), HasSubstr("the file is empty"));
  EXPECT_THAT(error_of("hello\nworld"), HasSubstr("it begins with \"hello\"; accepted are"));
  EXPECT_THAT(error_of("<html/>"), HasSubstr("the root element is <html>; accepted are"));
  EXPECT_THAT(error_of(std::string("\xff\xfe<\0s\0", 6)), HasSubstr("UTF-16"));
  EXPECT_THAT(error_of("\x1b[31mred"), HasSubstr("it begins with \"?[31mred\""));
}

TEST(Load, MakesNamesUtf8BeforeTheyAreCompared) {
  // Two names that a writer of JSON would both turn into the same replacement.
  EXPECT_THAT(error_of("GPU0 a\xff a\xfe\n"), HasSubstr("the column a? occurs twice"));
  const auto machine =
      parse_machine("<system><cpu vendor=\"\xc3\xa9\xed\xa0\x80\xf0\x9f\x98\x80\xc0\"/></system>", "t");
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->numas.at(0).vendor, "\xc3\xa9???\xf0\x9f\x98\x80?");
}

TEST(Load, RefusesReferencesToNoCharacter) {
  for (const char* reference : {"&#0;", "&#55296;", "&#xD800;", "&#x110000;", "&#x;"})
    EXPECT_THAT(error_of(std::string("<system>\n<cpu vendor=\"") + reference + "\"/></system>"), HasSubstr("t:2: \"&#"))
        << reference;
  EXPECT_TRUE(parse_machine("<system><cpu vendor=\"&#65;&#x42;&#7;&amp;\"/></system>", "t"));
}

TEST(Load, ReadsFilesAndNamesThemInErrors) {
  const Scratch scratch;
  const auto good = load_machine(fixture("one_nic.xml"));
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->source, fixture("one_nic.xml"));
  const auto empty = load_machine(scratch.file("empty.xml", ""));
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().message, HasSubstr("empty.xml: the file is empty"));
  const auto absent = load_machine(scratch / "absent.xml");
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().message, HasSubstr("absent.xml: No such file"));
  const auto folder = load_machine(std::filesystem::temp_directory_path());
  ASSERT_FALSE(folder);
}

TEST(Load, StopsReadingAnEndlessFile) {
  const auto endless = load_machine("/dev/zero");
  ASSERT_FALSE(endless);
  EXPECT_THAT(endless.error().message, HasSubstr("that is no topology file"));
}

TEST(Load, DumpsWhatItLoadsAgain) {
  const Scratch scratch;
  auto machine = load_machine(fixture("dgx_like.xml"));
  ASSERT_TRUE(machine);
  for (const char* name : {"dump.xml", "dump.json", "dump"}) {
    const auto ok = dump_machine(*machine, scratch / name);
    ASSERT_TRUE(ok) << ok.error().message;
    auto again = load_machine(scratch / name);
    ASSERT_TRUE(again) << again.error().message;
    again->source = machine->source;
    EXPECT_EQ(*again, *machine) << name;
  }
  EXPECT_FALSE(dump_machine(*machine, scratch / "absent/dump.xml"));
}

TEST(Load, ReadsAllFixtures) {
  for (const auto& path : files_in(TOPOLOGY_FIXTURES)) {
    const auto machine = load_machine(path);
    EXPECT_TRUE(machine) << path << machine.error().message;
  }
}

}  // namespace
}  // namespace twohop::topology
