#include "store/lmdb/repair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "store/batches.h"
#include "store/lmdb/check.h"
#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/page_walk.h"
#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

using ::testing::HasSubstr;

class Repair : public ::testing::Test {
 protected:
  static constexpr std::size_t kPage = 4096;
  using Rows = std::map<std::string, std::string>;

  Repair() {
    auto store = LmdbStore::open(params());
    EXPECT_TRUE(store);
    for (int round = 0; round < 4; ++round) {
      std::vector<Op> ops;
      for (int i = 0; i < 400; i += 1 + round) {
        ops.push_back(
            put("key" + std::to_string(1'000 + i),
                std::string(100 + static_cast<std::size_t>(i), static_cast<char>('a' + round))));
      }
      while (!ops.empty()) {
        EXPECT_TRUE((*store)->commit_wait(take_batch(ops, (*store)->limits())));
      }
    }
    before_ = rows_of(**store);
    revision_ = write(**store, erase("key1000"), put("key1001", "the last"));
    live_ = rows_of(**store);
    store->reset();
    std::ifstream file(path(), std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }
  [[nodiscard]] LmdbParams params() const {
    LmdbParams params;
    params.directory = directory_.data();
    params.map_limit = std::uint64_t{64} << 20;
    params.no_sync = true;
    return params;
  }
  static Rows rows_of(const Store& store) {
    Rows rows;
    EXPECT_TRUE(store.range({}, [&rows](const EntryView& entry) {
      rows[std::string(entry.key)] = entry.value;
      return true;
    }));
    return rows;
  }
  [[nodiscard]] std::string path() const { return directory_.data() + "/data.mdb"; }
  [[nodiscard]] std::string content() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write_file(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
  }
  [[nodiscard]] std::string without_page(std::size_t page) const {
    std::string bytes = bytes_;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(page * kPage), kPage, '\0');
    return bytes;
  }
  /// It goes on with all rows, and everybody lists once more.
  void expect_goes_on(const Rows& rows) const {
    const auto checked = check_store(directory_.data(), {});
    ASSERT_TRUE(checked) << checked.error().to_string();
    EXPECT_EQ(checked->problems(), 0U);
    auto store = LmdbStore::open(params());
    ASSERT_TRUE(store) << store.error().to_string();
    EXPECT_EQ(rows_of(**store), rows);
    EXPECT_EQ((*store)->changes("", revision_, 10).error().code(), Errc::kCompacted);
    EXPECT_GE(write(**store, put("next", "1")), revision_ + 1'000'000'000);
  }

  TempDir directory_;
  std::string bytes_;
  Rows live_, before_;
  Revision revision_ = 0;
};

TEST_F(Repair, GR_415_WhatIsSoundStaysAsItIs) {
  const auto repaired = repair_store(directory_.data(), {});
  ASSERT_TRUE(repaired) << repaired.error().to_string();
  EXPECT_FALSE(repaired->rewritten);
  EXPECT_EQ(content(), bytes_);
  EXPECT_EQ(repair_store(directory_.data() + "/nowhere", {}).error().code(), Errc::kNotFound);
}

TEST_F(Repair, GR_415_OneMetaPage) {
  for (const std::size_t page : {0U, 1U}) {
    const std::string damaged = without_page(page);
    write_file(damaged);
    const auto repaired = repair_store(directory_.data(), {});
    ASSERT_TRUE(repaired) << repaired.error().to_string();
    EXPECT_TRUE(repaired->rewritten);
    std::ifstream kept(path() + ".damaged", std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(kept), {}), damaged);
    // The newest of the two is that of the last commit.
    const bool is_last = repaired->objects == live_.size();
    expect_goes_on(is_last ? live_ : before_);
  }
}

TEST_F(Repair, GR_415_ObjectsThatAreLostAreNamedAndNothingChanges) {
  const std::size_t at = bytes_.find("the last");
  ASSERT_NE(at, std::string::npos);
  std::string damaged = bytes_;
  for (std::size_t one = at; one != std::string::npos; one = damaged.find("the last", one)) {
    damaged[one] = 'T';
  }
  write_file(damaged);
  const auto repaired = repair_store(directory_.data(), {});
  ASSERT_FALSE(repaired);
  EXPECT_EQ(repaired.error().code(), Errc::kCorrupt);
  EXPECT_THAT(repaired.error().to_string(), HasSubstr("key1001"));
  EXPECT_EQ(content(), damaged);
  EXPECT_FALSE(std::filesystem::exists(directory_.data() + "/repair.partial"));
}

TEST_F(Repair, GR_415_WhateverIsDamaged_ItIsWholeAfterwardsOrAsItWas) {
  std::mt19937 random(5);
  int whole = 0;
  for (int i = 0; i < 150; ++i) {
    std::string damaged = without_page(random() % (bytes_.size() / kPage));
    if (i % 3 == 1) {
      damaged = bytes_;
      damaged[random() % damaged.size()] ^= static_cast<char>(1U << (random() % 8));
    }
    write_file(damaged);
    const auto repaired = repair_store(directory_.data(), {});
    if (!repaired) {
      EXPECT_EQ(repaired.error().code(), Errc::kCorrupt) << repaired.error().to_string();
      EXPECT_EQ(content(), damaged);
      continue;
    }
    whole += repaired->rewritten ? 1 : 0;
    const auto checked = check_store(directory_.data(), {});
    ASSERT_TRUE(checked) << checked.error().to_string();
    EXPECT_EQ(checked->problems(), 0U) << i;
    auto store = LmdbStore::open(params());
    ASSERT_TRUE(store);
    const Rows rows = rows_of(**store);
    EXPECT_TRUE(rows == live_ || rows == before_) << i;
  }
  EXPECT_GT(whole, 10);
}

TEST_F(Repair, GR_415_ASumThatIsWrongIsCountedAnewAndNothingElseChanges) {
  constexpr BookRules kRules{[](std::string_view, std::string_view, BookEntry& out) noexcept {
                               out.parts[0] = {"all", Sums{1}};
                               out.used = 1;
                             },
                             1};
  LmdbParams counting = params();
  counting.books = kRules;
  {
    auto store = LmdbStore::open(counting);
    ASSERT_TRUE(store);
    write(**store, put("one-more", "1"));
    revision_ = (*store)->current();
    live_ = rows_of(**store);
  }
  {
    auto environment = Environment::open({directory_.data(), std::uint64_t{64} << 20});
    ASSERT_TRUE(environment);
    MDB_txn* txn = nullptr;
    ASSERT_EQ(mdb_txn_begin((*environment)->get(), nullptr, 0, &txn), 0);
    LmdbCursor cursor;
    ASSERT_EQ(cursor.open(txn, (*environment)->tables().books), 0);
    ASSERT_EQ(cursor.move(MDB_FIRST), 0);
    std::string row(cursor.value());
    row.back() = static_cast<char>(row.back() ^ 1);
    MDB_val key = to_val(cursor.key());
    const std::string copied(to_view(key));
    cursor.close();
    key = to_val(copied);
    MDB_val value = to_val(row);
    ASSERT_EQ(mdb_put(txn, (*environment)->tables().books, &key, &value, 0), 0);
    ASSERT_EQ(mdb_txn_commit(txn), 0);
  }
  const auto checked = check_store(directory_.data(), kRules);
  ASSERT_TRUE(checked);
  ASSERT_FALSE(checked->rows.miscounted.empty());
  const auto repaired = repair_store(directory_.data(), kRules);
  ASSERT_TRUE(repaired) << repaired.error().to_string();
  EXPECT_FALSE(repaired->rewritten);
  EXPECT_GT(repaired->counted, 0U);
  EXPECT_TRUE(check_store(directory_.data(), kRules)->rows.miscounted.empty());
  auto store = LmdbStore::open(counting);
  ASSERT_TRUE(store);
  EXPECT_EQ((*store)->current(), revision_);
  EXPECT_EQ(rows_of(**store), live_);
}

}  // namespace
}  // namespace kintsugi::store
