#include "store/lmdb/backup.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/layout.h"
#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BackupTest : public ::testing::Test {
 protected:
  static std::unique_ptr<LmdbStore> open(const std::string& directory) {
    LmdbParams params;
    params.directory = directory;
    params.map_limit = std::uint64_t{64} << 20;
    auto store = LmdbStore::open(std::move(params));
    EXPECT_TRUE(store) << store.error().to_string();
    return store ? std::move(*store) : nullptr;
  }
  /// Another process that makes a backup when it is told to, as the tool does while the store is in
  /// use here. To be made before this process has threads.
  class Elsewhere {
   public:
    Elsewhere(const std::string& source, const std::string& backup) {
      EXPECT_EQ(::pipe(pipe_.data()), 0);
      child_ = ::fork();
      if (child_ == 0) {
        char go = 0;
        const bool told = ::read(pipe_[0], &go, 1) == 1;
        const auto report = backup_store(source, backup);
        ::_exit(told && report && report->problems == 0 ? 0 : 1);
      }
    }
    bool backup() {
      int status = 0;
      return ::write(pipe_[1], "g", 1) == 1 && ::waitpid(child_, &status, 0) == child_ &&
             WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    ~Elsewhere() {
      ::close(pipe_[0]);
      ::close(pipe_[1]);
    }

   private:
    std::array<int, 2> pipe_{};
    pid_t child_ = -1;
  };
  void tamper(const std::string& directory, const char* table, std::string_view db_key,
              const std::function<void(std::string&)>& change) {
    auto environment = Environment::open({directory, std::uint64_t{128} << 20});
    ASSERT_TRUE(environment);
    MDB_txn* txn = nullptr;
    MDB_dbi dbi = 0;
    MDB_val key = to_val(db_key);
    MDB_val value{};
    ASSERT_EQ(mdb_txn_begin((*environment)->get(), nullptr, 0, &txn), 0);
    ASSERT_EQ(mdb_dbi_open(txn, table, 0, &dbi), 0);
    ASSERT_EQ(mdb_get(txn, dbi, &key, &value), 0);
    std::string record(to_view(value));
    change(record);
    value = to_val(record);
    ASSERT_EQ(mdb_put(txn, dbi, &key, &value, 0), 0);
    ASSERT_EQ(mdb_txn_commit(txn), 0);
  }

  TempDir source_, backup_, restored_;
};

TEST_F(BackupTest, WhenTheStoreIsInUse_AM465_ACopyOfOneRevisionIsRestoredAhead) {
  Elsewhere elsewhere(source_.data(), backup_.data());
  auto store = open(source_.data());
  write(*store, put("a", "1"));
  write(*store, put("a", "2"), put("b", "x"));
  ASSERT_TRUE(elsewhere.backup());
  EXPECT_EQ(write(*store, put("c", "later")), 3U);
  const auto report = restore_store(backup_.data(), restored_.data());
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->revision, kRestoreJump + 2);
  EXPECT_EQ(report->keys, 2U);
  EXPECT_THAT(report->damaged, ElementsAre());
  auto copy = open(restored_.data());
  EXPECT_THAT(rows(*copy, {"", "", 0}), ElementsAre("a=2@2/1", "b=x@2/2"));
  EXPECT_EQ(copy->current(), kRestoreJump + 2);
  EXPECT_EQ(copy->compacted(), kRestoreJump + 2);
  for (const Revision old : {Revision{1}, Revision{3}, kRestoreJump + 1}) {
    EXPECT_EQ(copy->changes("", old, 10).error().code(), Errc::kCompacted) << old;
    EXPECT_EQ(rows(*copy, {"", "", old}), std::vector<std::string>{"Compacted"}) << old;
  }
  EXPECT_EQ(write(*copy, put("a", "3", 2)), kRestoreJump + 3);
  EXPECT_EQ(copy->changes("", kRestoreJump + 2, 10)->events.size(), 1U);
  EXPECT_THAT(copy->verify()->problems, ElementsAre());
  store.reset();
  EXPECT_THAT(open(source_.data())->verify()->problems, ElementsAre());
}

TEST_F(BackupTest, WhenRestoredTwice_AM465_RevisionsNeverRepeat) {
  { write(*open(source_.data()), put("a", "1")); }
  ASSERT_TRUE(backup_store(source_.data(), backup_.data()));
  ASSERT_TRUE(restore_store(backup_.data(), restored_.data()));
  const TempDir second_backup;
  const TempDir second;
  const auto copied = backup_store(restored_.data(), second_backup.data());
  ASSERT_TRUE(copied) << copied.error().to_string();
  EXPECT_EQ(copied->revision, kRestoreJump + 1);
  EXPECT_EQ(restore_store(second_backup.data(), second.data())->revision, 2 * kRestoreJump + 1);
}

TEST_F(BackupTest, WhenFoldersAreWrong_SaysWhy) {
  EXPECT_THAT(std::string(backup_store(source_.data(), backup_.data()).error().message()),
              HasSubstr("no store is there"));
  { write(*open(source_.data()), put("a", "1")); }
  ASSERT_TRUE(backup_store(source_.data(), backup_.data()));
  const auto again = backup_store(source_.data(), backup_.data());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), Errc::kConfig);
  EXPECT_THAT(std::string(again.error().message()), HasSubstr("is not empty"));
  EXPECT_THAT(std::string(restore_store(backup_.data(), source_.data()).error().message()),
              HasSubstr("is not empty"));
}

TEST_F(BackupTest, WhenTheFormatIsNewer_AM466_IsRefusedWithItsNumber) {
  { write(*open(source_.data()), put("a", "1")); }
  ASSERT_TRUE(backup_store(source_.data(), backup_.data()));
  tamper(source_.data(), "meta", "format", [](std::string& record) { record = "9"; });
  tamper(backup_.data(), "meta", "format", [](std::string& record) { record = "9"; });
  for (const Error& error : {backup_store(source_.data(), restored_.data()).error().clone(),
                             restore_store(backup_.data(), restored_.data()).error().clone()}) {
    EXPECT_EQ(error.code(), Errc::kConfig);
    EXPECT_THAT(std::string(error.message()), HasSubstr("has format"));
    EXPECT_THAT(std::string(error.message()), HasSubstr("9"));
  }
}

TEST_F(BackupTest, WhenARecordIsDamaged_AM467_TheOthersAreRestored) {
  { write(*open(source_.data()), put("a", "1"), put("b", "2"), put("c", "3")); }
  tamper(source_.data(), "current", "b", [](std::string& record) { record.back() = '?'; });
  const auto report = backup_store(source_.data(), backup_.data());
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_GT(report->problems, 0U);
  const auto restored = restore_store(backup_.data(), restored_.data());
  ASSERT_TRUE(restored);
  EXPECT_THAT(restored->damaged, ElementsAre("b"));
  auto store = open(restored_.data());
  EXPECT_THAT(rows(*store, {"", "", 0}), ElementsAre("a=1@1/1", "c=3@1/1"));
  EXPECT_THAT(store->verify()->problems, ElementsAre());
}

}  // namespace
}  // namespace kintsugi::store
