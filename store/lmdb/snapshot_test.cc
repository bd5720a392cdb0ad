#include "store/lmdb/snapshot.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <map>

#include "store/lmdb/backup.h"
#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/layout.h"
#include "store/lmdb/maker.h"
#include "store/lmdb/rewrite.h"
#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A store that another process has open, which writes when it is told to.
class Owner {
 public:
  explicit Owner(const std::string& directory) {
    EXPECT_EQ(::pipe(orders_.data()), 0);
    EXPECT_EQ(::pipe(answers_.data()), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::close(orders_[1]);
      serve(directory);
      ::_exit(0);
    }
    ::close(orders_[0]);
  }
  ~Owner() {
    ::close(orders_[1]);
    int status = 0;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0);
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  /// 'w': n more rows, 'd': deletes row n, 'c': drops history, 'a': what it would drop by itself.
  void tell(char order, unsigned char n) {
    const std::array<char, 2> text{order, static_cast<char>(n)};
    char answer = 0;
    ASSERT_EQ(::write(orders_[1], text.data(), 2), 2);
    ASSERT_EQ(::read(answers_[0], &answer, 1), 1);
    ASSERT_EQ(answer, '+');
  }

 private:
  void serve(const std::string& directory) {
    LmdbParams params;
    params.directory = directory;
    params.map_limit = std::uint64_t{64} << 20;
    params.history_age = Duration(0);
    params.history_events = 0;
    params.compaction_interval = std::chrono::hours(1);  // when it is told to
    auto store = LmdbStore::open(std::move(params));
    std::array<char, 2> order{};
    int round = 0;
    while (store && ::read(orders_[0], order.data(), 2) == 2) {
      const int n = static_cast<unsigned char>(order[1]);
      ++round;
      bool done = true;
      if (order[0] == 'w') {
        for (int i = 0; i < n; ++i) {
          const auto result = (*store)->commit_wait(
              {put("key" + std::to_string(1000 + i), "round " + std::to_string(round))});
          done = done && result.has_value();
        }
      } else if (order[0] == 'd') {
        done = (*store)->commit_wait({erase("key" + std::to_string(1000 + n))}).has_value();
      } else {
        if (order[0] == 'c') {
          (*store)->compact((*store)->current());
        }
        (*store)->compact_now_for_test();
      }
      const char answer = done ? '+' : '-';
      if (::write(answers_[1], &answer, 1) != 1) {
        return;
      }
    }
  }

  std::array<int, 2> orders_{}, answers_{};
  pid_t child_ = -1;
};

std::map<std::string, std::string> rows_of(LmdbSnapshot& snapshot,
                                           const std::function<void()>& meanwhile = {}) {
  std::map<std::string, std::string> rows;
  const auto damaged = snapshot.read([&](const EntryView& row) -> Expected<void> {
    rows[std::string(row.key)] = std::string(row.value) + "@" + std::to_string(row.created) + "/" +
                                 std::to_string(row.modified);
    if (meanwhile) {
      meanwhile();
    }
    return {};
  });
  EXPECT_TRUE(damaged) << damaged.error().to_string();
  return rows;
}

class Snapshot : public ::testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<LmdbSnapshot> open() const {
    auto opened = LmdbSnapshot::open(directory_.data());
    EXPECT_TRUE(opened) << opened.error().to_string();
    return opened ? std::move(*opened) : nullptr;
  }
  TempDir directory_;
};

TEST_F(Snapshot, GR_406_ItIsOneRevisionWhateverIsWrittenMeanwhile) {
  Owner owner(directory_.data());
  owner.tell('w', 200);
  const auto snapshot = open();
  ASSERT_TRUE(snapshot->pin());
  EXPECT_EQ(*snapshot->revision(), 200U);
  EXPECT_TRUE(snapshot->is_newest());
  owner.tell('w', 210);
  owner.tell('d', 7);
  EXPECT_FALSE(snapshot->is_newest());
  // Each slice is over at the first look at the clock: most rows come from history.
  snapshot->set_slice_for_test(Duration(0));
  bool told = false;
  const auto rows = rows_of(*snapshot, [&] {
    if (!told) {
      told = true;
      owner.tell('d', 199);
    }
  });
  EXPECT_EQ(rows.size(), 200U);
  EXPECT_EQ(rows.at("key1007"), "round 1@8/8");
  EXPECT_EQ(rows.at("key1199"), "round 1@200/200");
  ASSERT_TRUE(snapshot->pin());
  const auto later = rows_of(*snapshot);
  EXPECT_EQ(later.size(), 208U);
  EXPECT_EQ(later.at("key1008"), "round 2@9/209");
}

TEST_F(Snapshot, GR_406_WhenHistoryIsGone_ItSaysSo) {
  Owner owner(directory_.data());
  owner.tell('w', 200);
  const auto snapshot = open();
  ASSERT_TRUE(snapshot->pin());
  snapshot->set_slice_for_test(Duration(0));
  bool told = false;
  const auto read = snapshot->read([&](const EntryView&) -> Expected<void> {
    if (!std::exchange(told, true)) {
      owner.tell('w', 200);
      owner.tell('c', 0);
    }
    return {};
  });
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Errc::kCompacted);
}

TEST_F(Snapshot, GR_406_WhileItIsHeldItsHistoryStays) {
  Owner owner(directory_.data());
  owner.tell('w', 200);
  for (const bool holds : {true, false}) {
    const auto snapshot = open();
    ASSERT_TRUE(snapshot->pin());
    if (holds) {
      ASSERT_TRUE(snapshot->hold());
    }
    snapshot->set_slice_for_test(Duration(0));
    bool told = false;
    std::size_t rows = 0;
    const auto read = snapshot->read([&](const EntryView&) -> Expected<void> {
      ++rows;
      if (!std::exchange(told, true)) {
        owner.tell('w', 200);
        owner.tell('a', 0);
      }
      return {};
    });
    EXPECT_EQ(read.has_value(), holds) << "nothing is held once it is read";
    EXPECT_EQ(rows == 200, holds);
  }
}

TEST_F(Snapshot, GR_402_AllOfThemWereTheNewestAtOneMoment) {
  const TempDir other;
  Owner first(directory_.data());
  Owner second(other.data());
  first.tell('w', 3);
  second.tell('w', 5);
  const auto a = open();
  auto b = LmdbSnapshot::open(other.data());
  ASSERT_TRUE(b);
  const auto together = pin_together({a.get(), b->get()}, Clock::now() + seconds(10));
  ASSERT_TRUE(together);
  EXPECT_TRUE(*together);
  EXPECT_EQ(*a->revision(), 3U);
  EXPECT_EQ(*(*b)->revision(), 5U);
  // Whoever is pinned and overtaken is no part of a common cut.
  ASSERT_TRUE(a->pin());
  first.tell('w', 1);
  EXPECT_FALSE(a->is_newest());
}

TEST_F(Snapshot, GR_402_StoresElsewhereArePinnedLastAndAreOfTheSameMoment) {
  Owner owner(directory_.data());
  owner.tell('w', 3);
  const auto snapshot = open();
  int pins = 0;
  bool are_newest = false;
  OtherPins others;
  others.pin = [&] {
    if (++pins == 1) {
      owner.tell('w', 1);  // between this one's pin and theirs
    }
    return Expected<void>();
  };
  others.are_newest = [&] { return Expected<bool>(std::exchange(are_newest, true)); };
  const auto together = pin_together({snapshot.get()}, Clock::now() + seconds(10), others);
  ASSERT_TRUE(together);
  EXPECT_TRUE(*together);
  EXPECT_EQ(*snapshot->revision(), 4U);
  EXPECT_EQ(pins, 3) << "once overtaken here, once elsewhere";
  others.are_newest = [] { return Expected<bool>(false); };
  EXPECT_FALSE(*pin_together({snapshot.get()}, Clock::now(), others));
  others.are_newest = [] { return Expected<bool>(fail(Errc::kUnavailable)); };
  EXPECT_EQ(pin_together({snapshot.get()}, Clock::now(), others).error().code(),
            Errc::kUnavailable);
}

TEST_F(Snapshot, GR_404_WhatDoesNotHoldIsNamedAndTheRestIsRead) {
  {
    write(
        *[this] {
          LmdbParams params;
          params.directory = directory_.data();
          params.map_limit = std::uint64_t{64} << 20;
          return std::move(*LmdbStore::open(std::move(params)));
        }(),
        put("a", "1"), put("b", "2"), put("c", "3"));
  }
  {
    auto environment = Environment::open({directory_.data(), std::uint64_t{128} << 20});
    ASSERT_TRUE(environment);
    MDB_txn* txn = nullptr;
    MDB_val key = to_val("b");
    MDB_val value = to_val("no record, whatever it is");
    ASSERT_EQ(mdb_txn_begin((*environment)->get(), nullptr, 0, &txn), 0);
    ASSERT_EQ(mdb_put(txn, (*environment)->tables().current, &key, &value, 0), 0);
    ASSERT_EQ(mdb_txn_commit(txn), 0);
  }
  const auto snapshot = open();
  ASSERT_TRUE(snapshot->pin());
  std::vector<std::string> keys;
  const auto damaged = snapshot->read([&keys](const EntryView& row) -> Expected<void> {
    keys.emplace_back(row.key);
    return {};
  });
  ASSERT_TRUE(damaged);
  EXPECT_THAT(*damaged, ElementsAre("b"));
  EXPECT_THAT(keys, ElementsAre("a", "c"));
}

TEST_F(Snapshot, GR_405_AStoreThatIsMadeAnewIsAnotherOne) {
  const auto incarnation_of = [](const std::string& directory) {
    auto snapshot = LmdbSnapshot::open(directory);
    EXPECT_TRUE(snapshot && (*snapshot)->pin());
    return snapshot ? (*snapshot)->incarnation() : std::string();
  };
  const TempDir copy;
  const TempDir restored;
  {
    TestStore other(Backend::kLmdb);  // a store has one, and not the same
    write(*other, put("a", "1"));
  }
  {
    LmdbParams params;
    params.directory = directory_.data();
    params.map_limit = std::uint64_t{64} << 20;
    auto store = LmdbStore::open(std::move(params));
    ASSERT_TRUE(store);
    write(**store, put("a", "1"));
  }
  const std::string first = incarnation_of(directory_.data());
  EXPECT_NE(first, "");
  EXPECT_EQ(incarnation_of(directory_.data()), first);
  ASSERT_TRUE(backup_store(directory_.data(), copy.data()));
  EXPECT_EQ(incarnation_of(copy.data()), first) << "the same rows";
  ASSERT_TRUE(restore_store(copy.data(), restored.data()));
  EXPECT_NE(incarnation_of(restored.data()), first);
  ASSERT_TRUE(rewrite_store(directory_.data(), [](std::string_view, std::string_view value) {
    return Expected<std::string>(std::string(value));
  }));
  EXPECT_NE(incarnation_of(directory_.data()), first);
}

TEST_F(Snapshot, GR_409_AStoreIsMadeOfRowsAndBeginsLater) {
  {
    auto made = StoreMaker::make(directory_.data());
    ASSERT_TRUE(made);
    ASSERT_TRUE((*made)->put({"b", "old", 2, 3}));
    ASSERT_TRUE((*made)->put({"a", "1", 1, 1}));
    ASSERT_TRUE((*made)->put({"b", "new", 2, 5}));
    EXPECT_EQ(*(*made)->finish(1'000), 2U);
  }
  EXPECT_EQ(StoreMaker::make(directory_.data()).error().code(), Errc::kConfig);
  LmdbParams params;
  params.directory = directory_.data();
  params.map_limit = std::uint64_t{64} << 20;
  const auto store = LmdbStore::open(std::move(params));
  ASSERT_TRUE(store);
  EXPECT_THAT(rows(**store, {"", "", 0}), ElementsAre("a=1@1/1", "b=new@5/2"));
  EXPECT_EQ((*store)->compacted(), 1'000U);
  EXPECT_EQ(write(**store, put("c", "x")), 1'001U);
  EXPECT_THAT((*store)->verify()->problems, IsEmpty());
}

}  // namespace
}  // namespace kintsugi::store
