#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/log_level.h"
#include "base/log_output.h"

namespace kintsugi {
namespace {

/// A folder of its own, removed with what is in it.
class LogFolder {
 public:
  LogFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "log-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data()) == nullptr ? "" : pattern;
  }
  ~LogFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// What stderr and stdout are, as they were, at the end of a test.
class LogOutput : public ::testing::Test {
 protected:
  void SetUp() override { set_log_format(LogFormat::kJson); }
  void TearDown() override {
    ::dup2(saved_[0], STDOUT_FILENO);
    ::dup2(saved_[1], STDERR_FILENO);
    ::close(saved_[0]);
    ::close(saved_[1]);
    set_log_format(LogFormat::kAuto);
  }
  static std::string text_of(const std::string& path) {
    std::ostringstream out;
    out << std::ifstream(path).rdbuf();
    return std::move(out).str();
  }
  static std::size_t count(const std::string& text, const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
      ++found;
    }
    return found;
  }

 private:
  int saved_[2] = {::dup(STDOUT_FILENO), ::dup(STDERR_FILENO)};
};

std::string logged(std::string_view value) {
  ::testing::internal::CaptureStderr();
  log_error("test", {{"value", value}});
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, WhenAValueHoldsAnyBytes_SE_T073_ItIsOneLineOfPlainText) {
  const std::string line = logged("a\nb\r\x1b[31mred\x7f\"\\\xff");
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  for (const char c : line.substr(0, line.size() - 1)) {
    EXPECT_TRUE(c >= 0x20 && c < 0x7f) << static_cast<int>(c);
  }
  EXPECT_NE(line.find(R"(a\u000ab\u000d\u001b[31mred\u007f\"\\?)"), std::string::npos) << line;
}

TEST(Log, WhenAValueIsLong_SE168_TheFirst1024BytesAreShown) {
  EXPECT_NE(logged(std::string(1024, 'x')).find(std::string(1024, 'x') + "\""), std::string::npos);
  const std::string cut = logged(std::string(1U << 20, 'x'));
  EXPECT_LT(cut.size(), 1200U);
  EXPECT_NE(cut.find("x… (1048576 bytes)"), std::string::npos);
  // Not in the middle of a character.
  EXPECT_NE(logged(std::string(1023, 'x') + "äää").find("x… (1029 bytes)"), std::string::npos);
}

TEST(Log, WhenAFieldIsANumber_OP301_ItIsOneInJson) {
  set_log_format(LogFormat::kJson);
  ::testing::internal::CaptureStderr();
  log_error("test", {{"count", std::uint64_t{18446744073709551615U}}, {"left", -3}, {"text", "3"}});
  const std::string json = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(json.ends_with(R"("msg":"test","count":18446744073709551615,"left":-3,"text":"3"})"
                             "\n"))
      << json;
  set_log_format(LogFormat::kLogfmt);
  ::testing::internal::CaptureStderr();
  log_error("test", {{"count", 3}, {"text", "a b"}});
  const std::string logfmt = ::testing::internal::GetCapturedStderr();
  set_log_format(LogFormat::kAuto);
  EXPECT_TRUE(logfmt.ends_with("Z error test count=3 text=\"a b\"\n")) << logfmt;
}

TEST(Log, LevelsHaveNames_OP302) {
  for (const LogLevel level :
       {LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug}) {
    EXPECT_EQ(parse_log_level(level_name(level)), level);
  }
  EXPECT_FALSE(parse_log_level("Info"));
  EXPECT_FALSE(parse_log_level(""));
}

TEST_F(LogOutput, WhenNobodyReads_OP304_LinesAreDroppedAndToldOf) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_GE(::dup2(ends[1], STDERR_FILENO), 0);
  ::close(ends[1]);
  const LogCounts before = log_counts();
  const std::string long_value(1000, 'x');
  for (int i = 0; i < 1000; ++i) {  // a pipe takes 64 KiB
    log_error("test", {{"value", long_value}});
  }
  const LogCounts full = log_counts();
  EXPECT_GT(full.dropped - before.dropped, 900U);
  EXPECT_EQ(full.dropped - before.dropped + full.lines[0] - before.lines[0], 1000U);
  std::string text(std::size_t{1} << 20U, '\0');
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  ASSERT_GT(size, 0);
  EXPECT_EQ(text[static_cast<std::size_t>(size) - 1], '\n') << "no part of a line";
  log_error("again");
  const ssize_t more = ::read(ends[0], text.data(), text.size());
  ASSERT_GT(more, 0);
  text.resize(static_cast<std::size_t>(more));
  EXPECT_NE(text.find("\"msg\":\"log lines were dropped\",\"count\":" +
                      std::to_string(full.dropped - before.dropped) + "}\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(count(text, "\n"), 2U);
  log_error("again");
  ::close(ends[0]);
  log_error("to nobody");  // is no signal, and no end
  ASSERT_TRUE(set_log_file("/dev/null"));
  log_error("here");  // tells of that
}

TEST_F(LogOutput, WhenTheFileWasRenamed_OP307_ItIsMadeAgainAndNoLineIsLost) {
  const LogFolder folder;
  const std::string path = folder.path() + "/a.log";
  ASSERT_TRUE(set_log_file(path));
  log_error("one");
  std::filesystem::rename(path, folder.path() + "/a.log.1");
  log_error("two");
  reopen_log_file();
  log_error("three");
  const char raw[] = "of a library\n";
  ASSERT_EQ(::write(STDERR_FILENO, raw, sizeof raw - 1), static_cast<ssize_t>(sizeof raw - 1));
  const std::string old = text_of(folder.path() + "/a.log.1"), now = text_of(path);
  EXPECT_EQ(count(old, "\"msg\":\"one\"") + count(old, "\"msg\":\"two\""), 2U) << old;
  EXPECT_EQ(count(now, "\"msg\":\"three\""), 1U) << now;
  EXPECT_EQ(count(old, "\n"), 2U);
  EXPECT_TRUE(now.ends_with(raw)) << now;
  struct stat facts {};
  ASSERT_EQ(::stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0137U, 0U);

  std::filesystem::remove_all(folder.path());
  reopen_log_file();  // says so to the file before
  log_error("four");
  auto refused = set_log_file(folder.path() + "/b.log");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().to_string().find("/b.log: No such file or directory"),
            std::string::npos);
}

TEST_F(LogOutput, WhenStderrIsTheJournals_OP301_LinesBeginWithTheirPriority) {
  const LogFolder folder;
  const std::string path = folder.path() + "/journal";
  ASSERT_TRUE(set_log_file(path));
  struct stat facts {};
  ASSERT_EQ(::stat(path.c_str(), &facts), 0);
  const std::string stream = std::to_string(facts.st_dev) + ":" + std::to_string(facts.st_ino);
  ASSERT_EQ(::setenv("JOURNAL_STREAM", stream.c_str(), 1), 0);
  set_log_format(LogFormat::kAuto);
  log_error("down", {{"shard", "a"}});
  log_info("up");
  ::unsetenv("JOURNAL_STREAM");
  EXPECT_EQ(text_of(path), "<3>down shard=a\n<6>up\n");
}

}  // namespace
}  // namespace kintsugi
