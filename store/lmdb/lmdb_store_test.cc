#include "store/lmdb/lmdb_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <lmdb.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kSecond = 1'000'000'000;

class LmdbStoreTest : public ::testing::Test {
 protected:
  LmdbStoreTest() {
    params_.directory = directory_.data();
    params_.map_limit = std::uint64_t{64} << 20;
    params_.no_sync = true;
  }
  void open() {
    store_.reset();
    auto opened = LmdbStore::open(params_);
    ASSERT_TRUE(opened) << opened.error().to_string();
    store_ = std::move(*opened);
  }
  [[nodiscard]] Store& store() { return *store_; }
  [[nodiscard]] VerifyReport verify() {
    auto report = store_->verify();
    return report ? std::move(*report) : VerifyReport{{report.error().to_string()}, 1};
  }
  [[nodiscard]] std::string data_file() const { return params_.directory + "/data.mdb"; }
  /// Flips one bit in the first occurrence of `needle` in the closed store's file.
  void damage(const std::string& needle) {
    store_.reset();
    std::fstream file(data_file(), std::ios::in | std::ios::out | std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    const std::size_t at = bytes.find(needle);
    ASSERT_NE(at, std::string::npos);
    file.clear();
    file.seekp(static_cast<std::streamoff>(at + needle.size() / 2));
    file.put(static_cast<char>(bytes[at + needle.size() / 2] ^ 1));
    file.close();
    open();
  }

  TempDir directory_;
  LmdbParams params_;
  std::unique_ptr<LmdbStore> store_;
};

TEST_F(LmdbStoreTest, WhenReopened_EverythingIsThere) {
  open();
  write(store(), put("a", "1"));
  write(store(), put("a", "2"), put("b", "x"));
  write(store(), erase("b", 2, "last"));
  const auto before = describe(store().changes("", 0, 10)->events);
  open();
  EXPECT_EQ(store().current(), 3U);
  EXPECT_THAT(rows(store(), {"", "", 2}), ElementsAre("a=2@2/1", "b=x@2/2"));
  EXPECT_EQ(describe(store().changes("", 0, 10)->events), before);
  EXPECT_EQ(store().subscribe([](const EventBatch&) {}).from, 3U);
  EXPECT_EQ(write(store(), put("a", "4")), 4U);
}

TEST_F(LmdbStoreTest, WhenCreated_OnlyTheOwnerMayRead) {
  open();
  struct stat status {};
  ASSERT_EQ(::stat(params_.directory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  for (const char* name : {"/data.mdb", "/lock.mdb", "/store.lock"}) {
    ASSERT_EQ(::stat((params_.directory + name).c_str(), &status), 0) << name;
    EXPECT_EQ(status.st_mode & 0777U, 0600U) << name;
  }
}

TEST_F(LmdbStoreTest, WhenSyncing_CommitsAreGrouped) {
  params_.no_sync = false;
  open();
  for (int i = 0; i < 2'000; ++i) {
    store().commit({put("k" + std::to_string(i), "v")}, nullptr);
  }
  EXPECT_EQ(write(store(), put("end", "")), 2'001U);
  EXPECT_EQ(store().stats().commits, 2'001U);
  EXPECT_LT(store().stats().syncs, 1'000U);
}

TEST_F(LmdbStoreTest, WhenAnotherProcessHasIt_RefusesToStart) {  // AM-458
  open();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto second = LmdbStore::open(params_);
    const bool right = !second && second.error().code() == Errc::kConfig &&
                       second.error().message().find("process " + std::to_string(::getppid())) !=
                           std::string_view::npos;
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(write(store(), put("a", "1")), 1U);
}

TEST_F(LmdbStoreTest, WhenOpenedTwiceInOneProcess_SecondIsRefused) {
  open();
  const auto second = LmdbStore::open(params_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Errc::kConfig);
  EXPECT_THAT(std::string(second.error().message()), HasSubstr("already in use"));
}

TEST_F(LmdbStoreTest, WhenFormatIsUnknown_RefusesWithItsNumber) {  // AM-466
  open();
  store_.reset();
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi meta = 0;
  ASSERT_EQ(mdb_env_create(&env), 0);
  ASSERT_EQ(mdb_env_set_maxdbs(env, 8), 0);
  ASSERT_EQ(mdb_env_open(env, params_.directory.c_str(), 0, 0600), 0);
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
  ASSERT_EQ(mdb_dbi_open(txn, "meta", 0, &meta), 0);
  std::string name = "format";
  std::string format = "7";
  MDB_val key{name.size(), name.data()};
  MDB_val value{format.size(), format.data()};
  ASSERT_EQ(mdb_put(txn, meta, &key, &value, 0), 0);
  ASSERT_EQ(mdb_txn_commit(txn), 0);
  mdb_env_close(env);
  const auto opened = LmdbStore::open(params_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Errc::kConfig);
  EXPECT_THAT(std::string(opened.error().message()), HasSubstr("has format 7"));
}

TEST_F(LmdbStoreTest, WhenFileIsNotAStore_RefusesAsCorrupt) {
  open();
  store_.reset();
  std::ofstream(data_file(), std::ios::trunc) << std::string(8192, 'x');
  const auto opened = LmdbStore::open(params_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Errc::kCorrupt);
}

TEST_F(LmdbStoreTest, WhenClosed_QueuedWritesAreAnsweredAndNothingAcknowledgedIsLost) {
  open();
  std::atomic<int> answered = 0;
  std::atomic<Revision> last = 0;
  for (int i = 0; i < 10'000; ++i) {
    store().commit({put("k", std::to_string(i))}, [&](Expected<CommitResult> result) {
      ++answered;
      if (result) {
        last = result->revision;
      }
    });
  }
  open();
  EXPECT_EQ(answered, 10'000);
  EXPECT_EQ(store().current(), last);
}

TEST_F(LmdbStoreTest, WhenQueueIsFull_TheRestIsOverloaded) {
  params_.queue_transactions = 8;
  open();
  std::mutex gate;
  std::vector<Errc> answers;
  std::atomic<bool> finished = false;
  {
    // The writer thread stands in the first callback until all others are queued.
    const std::unique_lock closed(gate);
    std::atomic<bool> standing = false;
    store().commit({put("first", "")}, [&](Expected<CommitResult>) {
      standing = true;
      standing.notify_one();
      const std::lock_guard wait(gate);
    });
    standing.wait(false);
    for (int i = 0; i < 10; ++i) {
      store().commit({put("k" + std::to_string(i), "")}, [&](Expected<CommitResult> result) {
        answers.push_back(error_of(result));
        if (answers.size() == 10) {
          finished = true;
          finished.notify_one();
        }
      });
    }
  }
  finished.wait(false);
  std::vector<Errc> expected(10, Errc::kOk);
  expected[8] = expected[9] = Errc::kOverloaded;
  EXPECT_EQ(answers, expected);
}

TEST_F(LmdbStoreTest, WhenQueuedBytesAreTooMany_TheRestIsOverloaded) {
  params_.queue_bytes = 100'000;
  open();
  const std::string large(80'000, 'v');
  std::mutex gate;
  std::vector<Errc> answers;
  {
    const std::unique_lock closed(gate);
    std::atomic<bool> standing = false;
    store().commit({put("first", "")}, [&](Expected<CommitResult>) {
      standing = true;
      standing.notify_one();
      const std::lock_guard wait(gate);
    });
    standing.wait(false);
    for (int i = 0; i < 2; ++i) {
      store().commit({put("k", large)}, [&answers](Expected<CommitResult> result) {
        answers.push_back(error_of(result));
      });
    }
  }
  write(store(), put("end", ""));
  EXPECT_THAT(answers, ElementsAre(Errc::kOk, Errc::kOverloaded));
}

TEST_F(LmdbStoreTest, WhenHistoryIsYoungOrShort_AutomaticCompactionKeepsIt) {
  std::atomic<std::int64_t> now = 1'000 * kSecond;
  params_.clock_for_test = [&now] { return now.load(); };
  params_.history_events = 100;
  open();
  const auto write_many = [&](int count) {
    for (int i = 0; i < count; ++i) {
      write(store(), put("k" + std::to_string(i % 5), std::to_string(i)));
    }
  };
  write_many(300);
  now += 20 * kSecond;
  store_->compact_now_for_test();
  EXPECT_EQ(store().compacted(), 0U) << "all of it is younger than five minutes";
  now += 299 * kSecond;
  store_->compact_now_for_test();
  EXPECT_EQ(store().compacted(), 0U);
  now += 2 * kSecond;
  store_->compact_now_for_test();
  EXPECT_EQ(store().compacted(), 200U) << "100 events stay";
  EXPECT_EQ(verify().events, 100U);
  write_many(300);
  store_->compact_now_for_test();
  EXPECT_EQ(store().compacted(), 300U) << "the new ones are young";
  now += 20 * kSecond;
  store_->compact_now_for_test();
  now += 301 * kSecond;
  store_->compact_now_for_test();
  EXPECT_EQ(store().compacted(), 500U);
  EXPECT_EQ(store().changes("", 500, 1'000)->events.size(), 100U);
  EXPECT_EQ(store().stats().keys, 5U);
  EXPECT_THAT(verify().problems, IsEmpty());
}

TEST_F(LmdbStoreTest, WhenReopenedUnderTheSameClock_AgeOfHistoryIsKnown) {
  std::atomic<std::int64_t> now = 1'000 * kSecond;
  params_.clock_for_test = [&now] { return now.load(); };
  params_.history_events = 10;
  open();
  for (int i = 0; i < 100; ++i) {
    write(store(), put("k", std::to_string(i)));
    now += 2 * kSecond;
  }
  now += 200 * kSecond;  // the first 50 revisions are now older than five minutes
  open();
  store_->compact_now_for_test();
  EXPECT_GT(store().compacted(), 30U);
  EXPECT_LE(store().compacted(), 50U);
}

TEST_F(LmdbStoreTest, WhenClockIsBehindTheMarks_HistoryCountsAsNew) {  // AM-464, another boot
  std::atomic<std::int64_t> now = 10'000 * kSecond;
  params_.clock_for_test = [&now] { return now.load(); };
  params_.history_events = 0;
  open();
  for (int i = 0; i < 20; ++i) {
    write(store(), put("k", std::to_string(i)));
    now += 60 * kSecond;
  }
  now = 5 * kSecond;
  open();
  store_->compact_now_for_test();
  EXPECT_EQ(store().compacted(), 0U);
  now += 301 * kSecond;
  store_->compact_now_for_test();
  EXPECT_EQ(store().compacted(), 20U);
}

TEST_F(LmdbStoreTest, WhenCompacted_OldVersionsAndTheirSpaceGo) {
  open();
  const std::string large(100'000, 'v');
  for (int i = 0; i < 50; ++i) {
    write(store(), put("k", large));
  }
  write(store(), put("gone", large));
  write(store(), erase("gone"));
  const std::uint64_t before = store().stats().bytes;
  EXPECT_GT(before, 5'000'000U);
  store().compact(store().current());
  store_->compact_now_for_test();
  EXPECT_LT(store().stats().bytes, 200'000U);
  const VerifyReport report = verify();
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.live, 1U);
  EXPECT_EQ(report.history, 0U);
  EXPECT_EQ(report.events, 0U);
  open();
  EXPECT_EQ(store().compacted(), 52U) << "the bound is durable";
  EXPECT_EQ(store().current(), 52U);
}

TEST_F(LmdbStoreTest, WhenCompactingUnderWritersAndReaders_NothingIsTornOrLost) {
  open();
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::thread reader([&] {
    while (!stop) {
      const Revision after = store().compacted();
      const auto changes = store().changes("", after, 100'000);
      if (!changes) {
        wrong += changes.error().code() == Errc::kCompacted ? 0 : 1;
        continue;
      }
      Revision expected = after;
      for (const Event& event : changes->events) {
        wrong += event.revision != ++expected ? 1 : 0;
      }
      wrong += changes->complete_to != expected ? 1 : 0;
    }
  });
  for (int i = 0; i < 3'000; ++i) {
    write(store(), put("k" + std::to_string(i % 50), std::string(100, 'v')));
    if (i % 100 == 99) {
      store().compact(store().current() - 20);
    }
  }
  stop = true;
  reader.join();
  store_->compact_now_for_test();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store().compacted(), 2'980U);
  EXPECT_THAT(verify().problems, IsEmpty());
}

TEST_F(LmdbStoreTest, WhenSizeLimitIsReached_PutsFailDeletesWorkAndItRecovers) {  // AM-460
  params_.map_limit = std::uint64_t{2} << 20;
  open();
  const std::string value(20'000, 'v');
  int written = 0;
  Expected<CommitResult> result = CommitResult{};
  while ((result = store().commit_wait({put("k" + std::to_string(written), value)}))) {
    ++written;
    ASSERT_LT(written, 1'000);
  }
  EXPECT_EQ(result.error().code(), Errc::kFull);
  EXPECT_GT(written, 60);
  EXPECT_EQ(store().health().error().code(), Errc::kFull);
  EXPECT_EQ(store().current(), static_cast<Revision>(written));
  EXPECT_EQ(rows(store(), {"", "", 0}).size(), static_cast<std::size_t>(written));
  for (int i = 0; i < written; ++i) {
    ASSERT_NE(write(store(), erase("k" + std::to_string(i))), 0U) << i;
  }
  EXPECT_EQ(error_of(store().commit_wait({put("k", value)})), Errc::kFull) << "history holds it";
  store().compact(store().current());
  store_->compact_now_for_test();
  EXPECT_NE(write(store(), put("k", value)), 0U);
  EXPECT_TRUE(store().health());
  EXPECT_THAT(verify().problems, IsEmpty());
}

TEST_F(LmdbStoreTest, WhenOneTransactionIsTooLarge_OthersOfItsGroupSucceed) {
  params_.map_limit = std::uint64_t{1} << 20;
  params_.limits.value_bytes = std::size_t{8} << 20;
  open();
  std::vector<Errc> answers;
  const auto note = [&answers](Expected<CommitResult> result) {
    answers.push_back(error_of(result));
  };
  store().commit({put("a", "1")}, note);
  store().commit({put("b", std::string(5'000'000, 'v'))}, note);
  store().commit({put("c", "1")}, note);
  EXPECT_NE(write(store(), put("d", "1")), 0U);
  EXPECT_THAT(answers, ElementsAre(Errc::kOk, Errc::kFull, Errc::kOk));
  EXPECT_THAT(rows(store(), {"", "", 0}), ElementsAre("a=1@1/1", "c=1@2/2", "d=1@3/3"));
}

TEST_F(LmdbStoreTest, WhenTheDiskIsFull_WritesFailReadsGoOnAndItRecovers) {  // AM-459
  // A file size limit stands for the full disk; it is the process's, hence the child.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    open();
    write(store(), put("a", "1"));
    struct stat status {};
    rlimit limit{};
    bool right =
        ::stat(data_file().c_str(), &status) == 0 && ::getrlimit(RLIMIT_FSIZE, &limit) == 0;
    const rlimit tight{static_cast<rlim_t>(status.st_size) + 4096, limit.rlim_max};
    right = right && ::setrlimit(RLIMIT_FSIZE, &tight) == 0;
    const std::string large(1'000'000, 'v');
    // LMDB reports a write that the limit cut short as EIO.
    const Errc error = error_of(store().commit_wait({put("b", large)}));
    right = right && (error == Errc::kFull || error == Errc::kIo);
    right = right && !store().health() && store().current() == 1 && store().get("a").has_value();
    right = right && ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
    right = right && write(store(), put("b", large)) == 2 && store().health().has_value();
    right = right && verify().problem_count == 0;
    store_.reset();
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(LmdbStoreTest, WhenCommitFailsWithAnIoError_WritersAreToldAndItRecovers) {
  std::atomic<int> fault = 0;
  params_.commit_fault_for_test = [&fault](bool committed) {
    return committed ? 0 : fault.exchange(0);
  };
  open();
  write(store(), put("a", "1"));
  fault = EIO;
  EXPECT_EQ(error_of(store().commit_wait({put("a", "2")})), Errc::kIo);
  EXPECT_EQ(store().health().error().code(), Errc::kIo);
  EXPECT_EQ(store().get("a")->value.view(), "1");
  EXPECT_EQ(write(store(), put("a", "3")), 2U);
  EXPECT_TRUE(store().health());
  EXPECT_THAT(verify().problems, IsEmpty());
}

TEST_F(LmdbStoreTest, WhenLmdbPanics_ItIsOpenedAgain) {
  std::atomic<int> fault = 0;
  params_.commit_fault_for_test = [&fault](bool committed) {
    return committed ? 0 : fault.exchange(0);
  };
  open();
  write(store(), put("a", "1"));
  fault = MDB_PANIC;
  EXPECT_EQ(error_of(store().commit_wait({put("a", "2")})), Errc::kIo);
  EXPECT_EQ(write(store(), put("a", "3")), 2U);
  EXPECT_EQ(store().get("a")->value.view(), "3");
  EXPECT_THAT(rows(store(), {"", "", 1}), ElementsAre("a=1@1/1"));
  EXPECT_TRUE(store().health());
}

TEST_F(LmdbStoreTest, WhenAFailedCommitReachedTheDisk_ItsEventsAreDeliveredOnce) {
  std::atomic<int> fault = 0;
  params_.commit_fault_for_test = [&fault](bool committed) {
    return committed ? fault.exchange(0) : 0;
  };
  open();
  std::vector<std::string> seen;
  const auto subscription = store().subscribe([&seen](const EventBatch& batch) {
    for (const Event& event : *batch) {
      seen.push_back(describe(event));
    }
  });
  write(store(), put("a", "1"));
  fault = MDB_PANIC;
  EXPECT_EQ(error_of(store().commit_wait({put("a", "2")})), Errc::kIo);
  EXPECT_EQ(write(store(), put("a", "3")), 3U);
  EXPECT_THAT(seen, ElementsAre("1 +a=1 (@0/1)", "2 +a=2 (1@1/1)", "3 +a=3 (2@2/1)"));
}

TEST_F(LmdbStoreTest, WhenNobodyWritesAfterAFailure_AProbeRecovers) {
  std::atomic<int> fault = 0;
  params_.commit_fault_for_test = [&fault](bool committed) {
    return committed ? fault.exchange(0) : 0;
  };
  params_.retry = milliseconds(1);
  open();
  std::atomic<Revision> seen = 0;
  const auto subscription = store().subscribe([&seen](const EventBatch& batch) {
    seen = batch->back().revision;
    seen.notify_one();
  });
  fault = MDB_PANIC;
  EXPECT_EQ(error_of(store().commit_wait({put("a", "1")})), Errc::kIo);
  seen.wait(0);
  EXPECT_EQ(seen, 1U);
  store_->compact_now_for_test();  // the probe's turn is over now
  EXPECT_TRUE(store().health());
}

TEST_F(LmdbStoreTest, WhenAValueIsDamaged_OnlyItsReadsFail) {  // AM-467
  open();
  write(store(), put("a", "fine"), put("b", std::string(3'000, 'b')), put("c", "good"));
  damage(std::string(3'000, 'b'));
  EXPECT_EQ(store().get("b").error().code(), Errc::kCorrupt);
  EXPECT_THAT(std::string(store().get("b").error().message()), HasSubstr("\"b\""));
  EXPECT_EQ(store().get("a")->value.view(), "fine");
  EXPECT_THAT(rows(store(), {"c", "", 0}), ElementsAre("c=good@1/1"));
  EXPECT_THAT(rows(store(), {"", "", 0}), ElementsAre("Corrupt"));
  EXPECT_EQ(*store().count({"", "", 0}), 3U);
  EXPECT_EQ(error_of(store().commit_wait({put("b", "x", 1)})), Errc::kCorrupt);
  EXPECT_EQ(verify().problem_count, 2U) << "the row, and the event that made it";
  EXPECT_EQ(write(store(), put("a", "2", 1)), 2U);
  EXPECT_EQ(write(store(), erase("b")), 3U) << "a write without expectation removes it";
  EXPECT_EQ(store().get("b").error().code(), Errc::kNotFound);
  EXPECT_THAT(rows(store(), {"", "", 0}), ElementsAre("a=2@2/1", "c=good@1/1"));
  store().compact(3);
  store_->compact_now_for_test();
  EXPECT_THAT(verify().problems, IsEmpty());
}

TEST_F(LmdbStoreTest, WhenAnOldVersionIsDamaged_TheLiveOneIsFine) {
  open();
  write(store(), put("a", std::string(3'000, 'o')));
  write(store(), put("a", "new"));
  store_.reset();
  open();
  // The file holds the value twice: a free page of revision 1, and the history row.
  store_.reset();
  std::fstream file(data_file(), std::ios::in | std::ios::out | std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const std::string needle(3'000, 'o');
  file.clear();
  for (std::size_t at = bytes.find(needle); at != std::string::npos;
       at = bytes.find(needle, at + needle.size())) {
    file.seekp(static_cast<std::streamoff>(at));
    file.put('x');
  }
  file.close();
  open();
  EXPECT_EQ(store().get("a")->value.view(), "new");
  EXPECT_THAT(rows(store(), {"", "", 0}), ElementsAre("a=new@2/1"));
  EXPECT_THAT(rows(store(), {"", "", 1}), ElementsAre("Corrupt"));
  EXPECT_EQ(store().changes("", 1, 10).error().code(), Errc::kCorrupt);
}

TEST_F(LmdbStoreTest, WhenReaderSlotsRunOut_ReadIsOverloadedAndLaterFine) {
  params_.max_readers = 2;
  open();
  write(store(), put("a", "1"));
  Errc innermost = Errc::kOk;
  const auto outer = store().range({"", "", 0}, [&](const EntryView&) {
    return store()
        .range({"", "", 0},
               [&](const EntryView&) {
                 const auto third = store().get("a");
                 innermost = third ? Errc::kOk : third.error().code();
                 return true;
               })
        .has_value();
  });
  EXPECT_TRUE(outer);
  EXPECT_EQ(innermost, Errc::kOverloaded);
  EXPECT_TRUE(store().get("a"));
}

}  // namespace
}  // namespace kintsugi::store
