#include "store/lmdb/internal/verify.h"

#include <gmock/gmock.h>
#include <lmdb.h>

#include <functional>

#include "store/lmdb/internal/layout.h"
#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Five revisions, then a hand on the tables of the closed store.
class VerifyTest : public ::testing::Test {
 protected:
  VerifyTest() {
    params_.directory = directory_.data();
    params_.map_limit = std::uint64_t{16} << 20;
    auto store = LmdbStore::open(params_);
    EXPECT_TRUE(store);
    write(**store, put("a", "1"));
    write(**store, put("a", "2"), put("b", "x"));
    write(**store, put("c", "y"));
    write(**store, erase("b"));
    write(**store, put("a", "5"));
  }

  void tamper(const char* table, const std::function<int(MDB_txn*, MDB_dbi)>& change) {
    EnvironmentParams params{params_.directory, std::uint64_t{32} << 20};
    auto environment = Environment::open(params);
    ASSERT_TRUE(environment);
    MDB_txn* txn = nullptr;
    MDB_dbi dbi = 0;
    ASSERT_EQ(mdb_txn_begin((*environment)->get(), nullptr, 0, &txn), 0);
    ASSERT_EQ(mdb_dbi_open(txn, table, 0, &dbi), 0);
    ASSERT_EQ(change(txn, dbi), 0);
    ASSERT_EQ(mdb_txn_commit(txn), 0);
  }
  void remove(const char* table, const std::string& db_key) {
    tamper(table, [&db_key](MDB_txn* txn, MDB_dbi dbi) {
      MDB_val key = to_val(db_key);
      return mdb_del(txn, dbi, &key, nullptr);
    });
  }
  void store_version(const char* table, const std::string& db_key, const layout::Version& version) {
    tamper(table, [&](MDB_txn* txn, MDB_dbi dbi) {
      std::string record(layout::kVersionHeader + version.value.size(), '\0');
      layout::encode_version(record.data(), db_key, version);
      MDB_val key = to_val(db_key);
      MDB_val value = to_val(record);
      return mdb_put(txn, dbi, &key, &value, 0);
    });
  }
  [[nodiscard]] std::vector<std::string> problems() {
    auto store = LmdbStore::open(params_);
    auto report = (*store)->verify();
    EXPECT_TRUE(report);
    EXPECT_EQ(report->problems.size(), report->problem_count);
    return report->problems;
  }

  TempDir directory_;
  LmdbParams params_;
};

TEST_F(VerifyTest, WhenNothingIsWrong_CountsRows) {
  auto store = LmdbStore::open(params_);
  const auto report = (*store)->verify();
  ASSERT_TRUE(report);
  EXPECT_THAT(report->problems, IsEmpty());
  EXPECT_EQ(report->live, 2U);
  EXPECT_EQ(report->history, 3U);
  EXPECT_EQ(report->events, 6U);
  EXPECT_EQ(report->revision, 5U);
}

TEST_F(VerifyTest, WhenALogRowIsMissing_SaysSo) {
  remove("log", layout::log_key(3, 0));
  EXPECT_THAT(problems(), Contains(HasSubstr("current \"c\": no event for revision 3")));
  EXPECT_THAT(problems(), Contains(HasSubstr("log 4/0: rows before it are missing")));
}

TEST_F(VerifyTest, WhenTheLastLogRowIsMissing_SaysSo) {
  remove("log", layout::log_key(5, 0));
  EXPECT_THAT(problems(), Contains(HasSubstr("log: ends at 4, not at revision 5")));
}

TEST_F(VerifyTest, WhenAnOldVersionIsMissing_SaysWhoMadeAndWhoEndedIt) {
  remove("history", layout::history_key("a", 2));
  EXPECT_THAT(problems(), Contains(HasSubstr("log 2/0: the version that it made is missing")));
  EXPECT_THAT(problems(), Contains(HasSubstr("log 5/0: the version that it ended is missing")));
}

TEST_F(VerifyTest, WhenADeletedKeyIsLive_SaysSo) {
  store_version("current", "b", {2, 2, "x"});
  EXPECT_THAT(problems(), Contains(HasSubstr("log 4/0: the key is live although it was deleted")));
}

TEST_F(VerifyTest, WhenRevisionsAreImpossible_SaysSo) {
  store_version("current", "c", {4, 3, "y"});
  store_version("history", layout::history_key("a", 1), {1, 9, "1"});
  const auto found = problems();
  EXPECT_THAT(found, Contains(HasSubstr("current \"c\": impossible revisions")));
  EXPECT_THAT(found, Contains(HasSubstr("history \"a\" 1: impossible revisions")));
  EXPECT_THAT(found, Contains(HasSubstr("history \"a\" 2: overlaps the version before")));
}

TEST_F(VerifyTest, WhenARecordIsOfAnotherKey_IsDamaged) {
  store_version("current", "z", {3, 3, "y"});
  tamper("current", [](MDB_txn* txn, MDB_dbi dbi) {
    MDB_val from = to_val("z");
    MDB_val to = to_val("c");
    MDB_val value{};
    int code = mdb_get(txn, dbi, &from, &value);
    const std::string record(code == 0 ? to_view(value) : std::string_view());
    MDB_val copy = to_val(record);
    code = code == 0 ? mdb_put(txn, dbi, &to, &copy, 0) : code;
    return code == 0 ? mdb_del(txn, dbi, &from, nullptr) : code;
  });
  EXPECT_THAT(problems(), Contains(HasSubstr("current \"c\": damaged")));
}

}  // namespace
}  // namespace kintsugi::store
