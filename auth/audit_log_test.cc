#include "auth/audit_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

namespace kintsugi::auth {
namespace {

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "audit-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~AuditLogTest() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const char* name) const { return folder_ + "/" + name; }
  [[nodiscard]] std::string content(const char* name) const {
    std::ifstream in(path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string folder_;
};

TEST_F(AuditLogTest, WhenItEnds_AM455_EverythingQueuedIsWritten) {
  {
    auto log = AuditLog::open({path("a")});
    ASSERT_TRUE(log);
    (*log)->add("one");
    (*log)->add("two");
  }
  { (*AuditLog::open({path("a")}))->add("three"); }
  EXPECT_EQ(content("a"), "one\ntwo\nthree\n");
}

TEST_F(AuditLogTest, WhenTheQueueIsFull_AM455_LinesAreDroppedAndCounted) {
  { (*AuditLog::open({.path = path("a"), .queue_bytes = 4}))->add("too long for it"); }
  EXPECT_EQ(content("a"), "{\"dropped\":1}\n");
}

TEST_F(AuditLogTest, WhenManyThreadsAdd_AM455_EachFindsItsLinesInOrder) {
  constexpr int kThreads = 4, kLines = 500;
  {
    auto log = AuditLog::open({path("a")});
    ASSERT_TRUE(log);
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&log, thread] {
        for (int line = 0; line < kLines; ++line) {
          (*log)->add(std::to_string(thread) + " " + std::to_string(line));
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  std::vector<int> next(kThreads, 0);
  std::ifstream in(path("a"));
  for (int thread = 0, line = 0; in >> thread >> line;) {
    ASSERT_EQ(line, next.at(static_cast<std::size_t>(thread))++);
  }
  EXPECT_EQ(next, std::vector<int>(kThreads, kLines));
}

TEST_F(AuditLogTest, WhenTheDiskIsFull_AM455_LostLinesAreReportedLater) {
  std::filesystem::create_symlink("/dev/full", path("a"));
  {
    auto log = AuditLog::open({path("a")});
    ASSERT_TRUE(log);
    (*log)->add("lost");
    while ((*log)->dropped() == 0) {
      std::this_thread::yield();
    }
    std::filesystem::remove(path("a"));
    (*log)->reopen();
  }
  EXPECT_EQ(content("a"), "{\"dropped\":1}\n");
}

TEST_F(AuditLogTest, WhenLinesAreLost_FP143_TheyAreCountedForEver) {
  std::filesystem::create_symlink("/dev/full", path("a"));
  auto log = AuditLog::open({path("a")});
  ASSERT_TRUE(log);
  for (std::uint64_t lines = 1; lines <= 3; ++lines) {
    (*log)->add("lost");
    while ((*log)->lost() < lines) {
      std::this_thread::yield();
    }
  }
  EXPECT_EQ((*log)->added(), 3U);
  EXPECT_EQ((*log)->lost(), 3U);
}

TEST_F(AuditLogTest, WhenTheFileIsFull_FP143_ItIsRenamedAndOldOnesGo) {
  const std::string line(40, 'x');
  const std::string ancient = "audit-2001-01-01T00-00-00.000000.log";
  for (const std::string& other : {ancient, std::string("audit-other.log")}) {
    std::ofstream(path(other.c_str())) << "kept?";
  }
  for (int i = 0; i < 5; ++i) {  // a process each: a block is never cut
    auto log = AuditLog::open({.path = path("audit.log"), .rotate_bytes = 60, .backups = 2});
    ASSERT_TRUE(log);
    (*log)->add(line + std::to_string(i));
  }
  EXPECT_EQ(content("audit.log"), line + "4\n");
  std::vector<std::string> backups;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    backups.push_back(entry.path().filename().string());
  }
  std::sort(backups.begin(), backups.end());
  ASSERT_EQ(backups.size(), 4U) << "two of past rotations, the file, and one of somebody else";
  EXPECT_EQ(content(backups[0].c_str()), line + "2\n");
  EXPECT_EQ(content(backups[1].c_str()), line + "3\n");
  EXPECT_EQ(backups[2], "audit-other.log");
}

TEST_F(AuditLogTest, WhenRenamedFilesAreOld_FP143_TheyGo) {
  std::ofstream(path("a-2001-01-01T00-00-00.000000")) << "old";
  for (const char* line : {"one", "two"}) {
    auto log = AuditLog::open({.path = path("a"), .rotate_bytes = 5, .days = 1});
    ASSERT_TRUE(log);
    (*log)->add(line);
  }
  EXPECT_EQ(content("a"), "two\n");
  EXPECT_FALSE(std::filesystem::exists(path("a-2001-01-01T00-00-00.000000")));
  const auto files = std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 2);
}

TEST_F(AuditLogTest, WhenTheDiskHangs_FP143_NobodyWaitsForItForLong) {
  ASSERT_EQ(::mkfifo(path("a").c_str(), 0600), 0);
  const int reader = ::open(path("a").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  const std::string line(1'000, 'x');
  {
    auto log =
        AuditLog::open({.path = path("a"), .queue_bytes = 200'000, .last_wait = milliseconds(1)});
    ASSERT_TRUE(log);
    while ((*log)->lost() == 0) {  // more than pipe and queue hold
      (*log)->add(line);
    }
  }
  ::fcntl(reader, F_SETFL, 0);
  std::string block(65'536, '\0');
  std::size_t got = 0;
  for (ssize_t count = 0; (count = ::read(reader, block.data(), block.size())) > 0;) {
    got += static_cast<std::size_t>(count);  // until the thread has closed its end
  }
  ::close(reader);
  EXPECT_GT(got, 100'000U);
}

TEST_F(AuditLogTest, WhenNobodyReadsThePipeYet_FP143_LinesWaitForAReader) {
  ASSERT_EQ(::mkfifo(path("a").c_str(), 0600), 0);
  std::ifstream reader;
  std::string line;
  {
    auto log = AuditLog::open({path("a")});
    ASSERT_TRUE(log);
    (*log)->add("one");
    reader.open(path("a"));
    (*log)->reopen();
    (*log)->add("two");
    for (const char* wanted : {"one", "two"}) {
      ASSERT_TRUE(std::getline(reader, line));
      EXPECT_EQ(line, wanted);
    }
  }
  EXPECT_FALSE(std::getline(reader, line)) << "the pipe has an end";
}

TEST_F(AuditLogTest, WhenTheFileIsMovedAway_ReopenMakesANewOne) {
  {
    auto log = AuditLog::open({path("a")});
    std::filesystem::rename(path("a"), path("b"));
    (*log)->reopen();
    (*log)->add("new");
  }
  EXPECT_EQ(content("a"), "new\n");
  EXPECT_FALSE(AuditLog::open({folder_ + "/no/such"}));
}

}  // namespace
}  // namespace kintsugi::auth
