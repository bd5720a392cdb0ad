#include "store/books.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "store/internal/book_keeper.h"
#include "store/lmdb/backup.h"
#include "store/lmdb/check.h"
#include "store/lmdb/rewrite.h"
#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

/// Keys are "<account>/<rest>": column 0 are bytes of values, 1 rows; 2, in account "x<value>", of
/// rows "<account>/x…".
void measure(std::string_view key, std::string_view value, BookEntry& out) noexcept {
  const std::size_t slash = key.find('/');
  if (slash == std::string_view::npos) {
    return;
  }
  out.parts[0].account = key.substr(0, slash);
  out.parts[0].sums[0] = static_cast<std::int64_t>(value.size());
  out.parts[0].sums[1] = 1;
  out.used = 1;
  if (key.substr(slash + 1).starts_with('x')) {
    out.parts[1].account = value;
    out.parts[1].sums[2] = 1;
    out.used = 2;
  }
}
constexpr BookRules kRules{measure, 7};
constexpr Keeps kAll{0x7, false};

Sums most(std::int64_t bytes, std::int64_t rows) {
  Sums out = no_limits();
  out[0] = bytes;
  out[1] = rows;
  return out;
}

Op kept(Op op, const Keeps& keeps = kAll) {
  op.keeps = keeps;
  return op;
}

LmdbParams lmdb_params(const std::string& directory) {
  LmdbParams params;
  params.directory = directory;
  params.map_limit = std::uint64_t{256} << 20;
  params.no_sync = true;
  params.books = kRules;
  return params;
}

class StoreBooks : public ::testing::TestWithParam<Backend> {
 protected:
  StoreBooks() {
    if (GetParam() == Backend::kMemory) {
      store_ = std::make_unique<MemoryStore>(kRules);
    } else {
      auto opened = LmdbStore::open(lmdb_params(directory_.data()));
      EXPECT_TRUE(opened) << opened.error().to_string();
      store_ = std::move(*opened);
    }
  }
  /// bytes, rows
  std::vector<std::int64_t> sums(std::string_view account) {
    const Sums all = store_->books()->sums(account);
    return {all[0], all[1]};
  }
  /// nullopt: it was stored
  template <class... Ops>
  std::optional<Excess> over(Ops... ops) {
    std::vector<Op> list;
    (list.push_back(std::move(ops)), ...);
    const auto result = store_->commit_wait(std::move(list));
    EXPECT_TRUE(result) << result.error().to_string();
    return result ? result->excess : Excess{99, 0, 0};
  }

  TempDir directory_;
  std::unique_ptr<Store> store_;
};
INSTANTIATE_TEST_SUITE_P(Backends, StoreBooks, ::testing::Values(Backend::kLmdb, Backend::kMemory),
                         backend_name);

using V = std::vector<std::int64_t>;

TEST_P(StoreBooks, SE093_SumsFollowEveryTransaction) {
  write(*store_, put("a/1", "four"), put("b/1", "x"), put("nobody's", "y"));
  EXPECT_EQ(sums("a"), (V{4, 1}));
  EXPECT_EQ(sums("b"), (V{1, 1}));
  write(*store_, put("a/1", "fifteen bytes.."), put("a/2", "z"));
  EXPECT_EQ(sums("a"), (V{16, 2}));
  EXPECT_EQ(write(*store_, put("a/3", "lost", Revision{77})), 0U) << "a conflict";
  EXPECT_EQ(sums("a"), (V{16, 2}));
  write(*store_, erase("a/1"), erase("a/none"));
  EXPECT_EQ(sums("a"), (V{1, 1}));
  write(*store_, erase("a/2"), erase("b/1"));
  EXPECT_EQ(sums("a"), (V{0, 0}));
  EXPECT_EQ(sums("never"), (V{0, 0}));
}

TEST_P(StoreBooks, SE093_WhoKeepsToALimitIsRefusedBeyondIt) {
  Books& books = *store_->books();
  books.limit("a", most(10, 3));
  EXPECT_FALSE(over(kept(put("a/1", "12345"))));
  EXPECT_FALSE(over(kept(put("a/2", "12345")))) << "just full";
  const auto bytes = over(kept(put("a/3", "1")));
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->column, 0U);
  EXPECT_EQ(bytes->sum, 10);
  EXPECT_EQ(bytes->most, 10);
  EXPECT_EQ(sums("a"), (V{10, 2})) << "nothing of it was stored";
  EXPECT_FALSE(store_->get("a/3"));
  EXPECT_FALSE(over(kept(put("a/1", "54321")))) << "what does not grow";
  EXPECT_TRUE(over(kept(put("a/1", "654321"))));
  EXPECT_FALSE(over(kept(put("a/1", "")), kept(put("a/3", "12345"))))
      << "a transaction counts as one";
  EXPECT_TRUE(over(kept(put("a/4", "")))) << "rows";
  EXPECT_FALSE(over(put("a/4", "more than there is room for"))) << "who keeps to nothing";
  EXPECT_FALSE(over(kept(put("a/4", "still far more than ten")))) << "it shrinks";
  EXPECT_FALSE(over(kept(erase("a/4"))));
  EXPECT_FALSE(over(kept(put("b/1", "another account, without limits"))));
  EXPECT_EQ(books.limits("a"), most(10, 3));
  EXPECT_EQ(books.limits("never"), no_limits());
  books.limit("a", std::nullopt);
  EXPECT_EQ(books.limits("a"), no_limits());
  EXPECT_FALSE(over(kept(put("a/5", "the limit has gone"))));
}

TEST_P(StoreBooks, SE093_TheReserveIsATenthMore) {
  store_->books()->limit("a", most(20, kNoLimit));
  EXPECT_FALSE(over(kept(put("a/1", std::string(20, 'x')))));
  EXPECT_TRUE(over(kept(put("a/2", "1"))));
  EXPECT_FALSE(over(kept(put("a/2", "12"), Keeps{1, true})));
  EXPECT_TRUE(over(kept(put("a/2", "123"), Keeps{1, true})));
}

TEST_P(StoreBooks, SE093_ARowMayCountInASecondAccount) {
  store_->books()->set_initial([](std::string_view account) {
    Sums out = no_limits();
    out[2] = account == "owner" ? 2 : kNoLimit;
    return out;
  });
  EXPECT_FALSE(over(kept(put("a/x1", "owner"))));
  EXPECT_FALSE(over(kept(put("b/x1", "owner"))));
  const auto third = over(kept(put("c/x1", "owner")));
  ASSERT_TRUE(third);
  EXPECT_EQ(third->column, 2U);
  EXPECT_FALSE(over(kept(put("a/x1", "other")))) << "it changes hands";
  EXPECT_FALSE(over(kept(put("c/x1", "owner"))));
}

TEST_P(StoreBooks, SE093_ADryRunIsCheckedAndCountsNothing) {
  Books& books = *store_->books();
  books.limit("a", most(10, 2));
  EXPECT_FALSE(books.check("a/1", "", false, "1234567890", kAll));
  EXPECT_TRUE(books.check("a/1", "", false, "12345678901", kAll));
  write(*store_, put("a/1", "12345"));
  EXPECT_FALSE(books.check("a/1", "12345", true, "1234567890", kAll));
  EXPECT_TRUE(books.check("a/2", "", false, "123456", kAll));
  EXPECT_FALSE(books.check("a/2", "", false, "123456", {})) << "who keeps to nothing";
  EXPECT_EQ(sums("a"), (V{5, 1}));
}

TEST_P(StoreBooks, SE_T038_OfManyWritersExactlySoManyPass) {
  store_->books()->limit("a", most(kNoLimit, 100));
  std::atomic<int> stored = 0, refused = 0;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 64; ++writer) {
    writers.emplace_back([this, writer, &stored, &refused] {
      for (int i = 0; i < 5; ++i) {
        const std::string key = "a/" + std::to_string(writer) + "-" + std::to_string(i);
        const auto result = store_->commit_wait({kept(put(key, "v"))});
        ASSERT_TRUE(result);
        ++(result->excess ? refused : stored);
      }
    });
  }
  for (std::thread& writer : writers) {
    writer.join();
  }
  EXPECT_EQ(stored, 100);
  EXPECT_EQ(refused, 220);
  EXPECT_EQ(sums("a"), (V{100, 100}));
  EXPECT_EQ(*store_->count({"a/", "", 0}), 100U);
}

/// Whatever happens to the file, the sums are those of the rows.
class BookTable : public ::testing::Test {
 protected:
  std::unique_ptr<LmdbStore> open(const BookRules& rules = kRules) {
    LmdbParams params = lmdb_params(directory_.data());
    params.books = rules;
    auto store = LmdbStore::open(params);
    EXPECT_TRUE(store) << store.error().to_string();
    return store ? std::move(*store) : nullptr;
  }
  static V sums(LmdbStore& store, std::string_view account) {
    const Sums all = store.books()->sums(account);
    return {all[0], all[1]};
  }
  static std::string miscounted(const LmdbStore& store) {
    const auto report = store.verify();
    return !report                      ? report.error().to_string()
           : report->miscounted.empty() ? ""
                                        : report->miscounted.front();
  }
  TempDir directory_;
};

TEST_F(BookTable, SE093_SumsAreThereAfterARestart) {
  write(*open(), put("a/1", "four"), put("b/1", "gone"));
  write(*open(), erase("b/1"));
  const auto store = open();
  EXPECT_EQ(sums(*store, "a"), (V{4, 1}));
  EXPECT_EQ(sums(*store, "b"), (V{0, 0}));
  EXPECT_EQ(miscounted(*store), "");
}

TEST_F(BookTable, SE093_WhoWroteWithoutBooksIsFoundOut) {
  write(*open(), put("a/1", "four"));
  {
    const auto without = open(BookRules{});
    EXPECT_EQ(without->books(), nullptr);
    write(*without, put("a/2", "three"), put("b/1", "x"));
  }
  {
    const auto store = open();
    EXPECT_EQ(miscounted(*store), "") << "nobody believes what is on disk";
    EXPECT_EQ(sums(*store, "a"), (V{9, 2}));
    EXPECT_EQ(sums(*store, "b"), (V{1, 1}));
    write(*store, put("b/2", "x"));  // keeps all of them
  }
  EXPECT_EQ(miscounted(*open()), "");
  EXPECT_EQ(sums(*open(), "a"), (V{9, 2}));
}

TEST_F(BookTable, SE093_OtherRulesCountAnew) {
  write(*open(), put("a/1", "four"));
  const auto store = open({[](std::string_view, std::string_view, BookEntry& out) noexcept {
                             out.parts[0].account = "all";
                             out.parts[0].sums[0] = 1;
                             out.used = 1;
                           },
                           8});
  EXPECT_EQ(sums(*store, "all"), (V{1, 0}));
  EXPECT_EQ(sums(*store, "a"), (V{0, 0}));
}

TEST_F(BookTable, SE093_CheckSaysWhatIsWrongAndCountsAnew) {
  write(*open(), put("a/1", "four"), put("b/1", "x"));
  // The same version, and not the same: as a fault of the program would leave it.
  write(*open({[](std::string_view, std::string_view, BookEntry& out) noexcept {
                 out.parts[0].account = "b";
                 out.parts[0].sums[1] = 5;
                 out.used = 1;
               },
               kRules.version}),
        put("a/2", "x"));
  EXPECT_NE(miscounted(*open()), "");
  LmdbParams params = lmdb_params(directory_.data());
  params.recount = true;
  ASSERT_TRUE(LmdbStore::open(params));
  const auto store = open();
  EXPECT_EQ(miscounted(*store), "");
  EXPECT_EQ(sums(*store, "a"), (V{5, 2}));
  EXPECT_EQ(sums(*store, "b"), (V{1, 1}));
}

/// The store of a proxy, and one that was restored: nothing is wrong with sums that nobody kept.
TEST_F(BookTable, GR_416_CheckSaysNothingOfBooksThatAreNotKept) {
  write(*open(BookRules{}), put("a/1", "four"));
  const auto checked = check_store(directory_.data(), kRules);
  ASSERT_TRUE(checked) << checked.error().to_string();
  EXPECT_EQ(checked->rows.live, 1U);
  EXPECT_EQ(checked->rows.miscounted, std::vector<std::string>());
}

TEST_F(BookTable, SE093_CopiesAndRewrittenStoresCountWhatTheyHave) {
  write(*open(), put("a/1", "four"), put("a/2", "x"));
  ASSERT_TRUE(rewrite_store(directory_.data(), [](std::string_view, std::string_view value) {
    return Expected<std::string>("longer-" + std::string(value));
  }));
  EXPECT_EQ(sums(*open(), "a"), (V{19, 2}));
  const TempDir copy;
  const TempDir restored;
  ASSERT_TRUE(backup_store(directory_.data(), copy.data()));
  ASSERT_TRUE(restore_store(copy.data(), restored.data()));
  for (const std::string& directory : {copy.data(), restored.data()}) {
    const auto store = LmdbStore::open(lmdb_params(directory));
    ASSERT_TRUE(store);
    EXPECT_EQ(sums(**store, "a"), (V{19, 2})) << directory;
  }
}

TEST_F(BookTable, SE093_WhatACommitLosesIsNotCounted) {
  LmdbParams params = lmdb_params(directory_.data());
  std::atomic<int> fault = 0;  // 1: before the commit, 2: after it, although it reached the disk
  params.commit_fault_for_test = [&fault](bool committed) {
    return fault == (committed ? 2 : 1) ? EIO : 0;
  };
  params.retry = milliseconds(1);
  auto opened = LmdbStore::open(params);
  ASSERT_TRUE(opened);
  LmdbStore& store = **opened;
  write(store, put("a/1", "four"));
  fault = 1;
  EXPECT_FALSE(store.commit_wait({put("a/2", "lost")}));
  EXPECT_EQ(sums(store, "a"), (V{4, 1}));
  fault = 2;
  EXPECT_FALSE(store.commit_wait({put("a/3", "kept!")}));
  fault = 0;
  write(store, put("a/4", "x"));
  EXPECT_EQ(sums(store, "a"), (V{10, 3}));
  EXPECT_EQ(miscounted(store), "");
}

/// Creates and deletes in ten accounts until it is killed.
[[noreturn]] void count_until_killed(const std::string& directory, unsigned seed) {
  auto store = LmdbStore::open(lmdb_params(directory));
  if (!store) {
    ::_exit(1);
  }
  std::mt19937 random(seed);
  std::atomic<int> in_flight = 0;
  while (true) {
    const std::string key = std::to_string(random() % 10) + "/" + std::to_string(random() % 200);
    std::vector<Op> ops;
    ops.push_back(random() % 3 == 0 ? erase(key) : put(key, std::string(random() % 300, 'v')));
    ++in_flight;
    (*store)->commit(std::move(ops), [&in_flight](const Expected<CommitResult>&) { --in_flight; });
    while (in_flight > 64) {
      std::this_thread::yield();
    }
  }
}

TEST_F(BookTable, SE_T038_AfterKill9TheSumsAreThoseOfTheRows) {
  std::mt19937 random(3);
  for (unsigned round = 0; round < 12; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      count_until_killed(directory_.data(), round);
    }
    std::this_thread::sleep_for(milliseconds(20 + random() % 60));  // when is what is tried
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const auto store = open();
    ASSERT_NE(store, nullptr);
    ASSERT_EQ(miscounted(*store), "") << "round " << round;
    std::map<std::string, V> counted;
    ASSERT_TRUE(store->range({}, [&counted](const EntryView& entry) {
      V& sums = counted[std::string(entry.key.substr(0, entry.key.find('/')))];
      sums.resize(2);
      sums[0] += static_cast<std::int64_t>(entry.value.size());
      ++sums[1];
      return true;
    }));
    for (const auto& [account, expected] : counted) {
      ASSERT_EQ(sums(*store, account), expected) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace kintsugi::store
