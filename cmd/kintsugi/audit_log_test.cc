#include "cmd/kintsugi/audit_log.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

namespace kintsugi::cmd {
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
    auto log = AuditLog::open(path("a"));
    ASSERT_TRUE(log);
    (*log)->add("one");
    (*log)->add("two");
  }
  { (*AuditLog::open(path("a")))->add("three"); }
  EXPECT_EQ(content("a"), "one\ntwo\nthree\n");
}

TEST_F(AuditLogTest, WhenTheQueueIsFull_AM455_LinesAreDroppedAndCounted) {
  { (*AuditLog::open(path("a"), 4))->add("too long for it"); }
  EXPECT_EQ(content("a"), "{\"dropped\":1}\n");
}

TEST_F(AuditLogTest, WhenManyThreadsAdd_AM455_EachFindsItsLinesInOrder) {
  constexpr int kThreads = 4, kLines = 500;
  {
    auto log = AuditLog::open(path("a"));
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
    auto log = AuditLog::open(path("a"));
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

TEST_F(AuditLogTest, WhenTheFileIsMovedAway_ReopenMakesANewOne) {
  {
    auto log = AuditLog::open(path("a"));
    std::filesystem::rename(path("a"), path("b"));
    (*log)->reopen();
    (*log)->add("new");
  }
  EXPECT_EQ(content("a"), "new\n");
  EXPECT_FALSE(AuditLog::open(folder_ + "/no/such"));
}

}  // namespace
}  // namespace kintsugi::cmd
