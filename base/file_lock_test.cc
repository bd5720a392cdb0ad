#include "base/file_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

namespace kintsugi {
namespace {

class FileLockTest : public testing::Test {
 protected:
  FileLockTest() {
    std::string name = testing::TempDir() + "file-lock-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ + "/lock";
  }
  ~FileLockTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string content() const {
    std::ostringstream out;
    out << std::ifstream(path_).rdbuf();
    return out.str();
  }
  [[nodiscard]] std::optional<FileLock> taken(LockFile file = LockFile::kNamesHolder) const {
    Expected<FileLock> lock = FileLock::take(path_, file);
    return lock ? std::optional(std::move(*lock)) : std::nullopt;
  }
  [[nodiscard]] std::string refusal(LockFile file = LockFile::kNamesHolder) const {
    const Expected<FileLock> lock = FileLock::take(path_, file);
    return lock ? "" : lock.error().to_string();
  }

  std::string folder_, path_;
};

TEST_F(FileLockTest, WhenItIsTaken_NobodyElseHasIt_AndTheHolderIsNamed) {
  {
    const auto lock = taken();
    ASSERT_TRUE(lock);
    EXPECT_EQ(content(), std::to_string(::getpid()) + "\n");
    struct stat facts {};
    ASSERT_EQ(::fstat(lock->descriptor(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777U, 0600U);
    const Expected<FileLock> second = FileLock::take(path_);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), Errc::kConfig);
    EXPECT_EQ(second.error().message(), "in use by process " + std::to_string(::getpid()));
  }
  EXPECT_TRUE(taken());
}

TEST_F(FileLockTest, WhenItsHolderIsKilled_ItIsFree) {
  int ready[2] = {};
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto lock = taken();
    (void)!::write(ready[1], lock ? "y" : "n", 1);
    ::pause();
    ::_exit(0);
  }
  char has = 0;
  ASSERT_EQ(::read(ready[0], &has, 1), 1);
  EXPECT_EQ(has, 'y');
  EXPECT_NE(refusal().find("in use by process " + std::to_string(child)), std::string::npos);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(taken());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(FileLockTest, WhenTheFileHasContent_ItStaysAsItIs) {
  std::ofstream(path_) << "1234 rows";
  const auto lock = taken(LockFile::kHasContent);
  ASSERT_TRUE(lock);
  EXPECT_EQ(content(), "1234 rows");
  EXPECT_EQ(FileLock::take(path_, LockFile::kHasContent).error().message(),
            "in use by another process");
}

TEST_F(FileLockTest, WhenTheFileIsLeftAlone_ItIsNotMadeAndNotWritten) {
  const Expected<FileLock> none = FileLock::take(path_, LockFile::kIsLeftAlone);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Errc::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::ofstream(path_) << "";
  ASSERT_TRUE(taken(LockFile::kIsLeftAlone));
  EXPECT_EQ(content(), "");
}

TEST_F(FileLockTest, WhenItWaits_ItGetsTheLockOnceThatIsFree) {
  auto first = taken();
  ASSERT_TRUE(first);
  std::atomic<bool> is_freed = false, comes = false;
  std::optional<bool> was_freed;
  std::thread other([&] {
    comes.store(true);
    comes.notify_one();
    const auto lock = FileLock::take(path_, LockFile::kNamesHolder, LockWait::kUntilFree);
    was_freed = lock && is_freed.load();
  });
  comes.wait(false);
  is_freed.store(true);
  first.reset();
  other.join();
  EXPECT_EQ(was_freed, true);
}

TEST_F(FileLockTest, WhenThePathIsALinkOrCannotBeHad_SaysWhere) {
  std::ofstream(folder_ + "/other") << "";
  std::filesystem::create_symlink("other", path_);
  EXPECT_NE(refusal().find(path_ + ": "), std::string::npos);
  EXPECT_EQ(FileLock::take(folder_ + "/none/lock").error().code(), Errc::kNotFound);
}

}  // namespace
}  // namespace kintsugi
