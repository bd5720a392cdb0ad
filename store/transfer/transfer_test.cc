#include "store/transfer/transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "store/lmdb/maker.h"
#include "store/lmdb/source.h"
#include "store/testing/etcd_replica.h"

namespace kintsugi::store {
namespace {

using ::testing::HasSubstr;
using Rows = std::map<std::string, std::string>;

constexpr int kRows = 5'000;

class TransferTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (etcd_program().empty()) {
      GTEST_SKIP() << "no etcd on this machine";
    }
    static int count = 0;
    etcd_.endpoints = {test_etcd().url()};
    etcd_.prefix = "/transfer/" + std::to_string(++count);
  }

  /// A store with rows of every shape, and the newest revision that it has told.
  Revision make_store() {
    auto store = open_lmdb(from_.data());
    EXPECT_TRUE(store) << store.error().to_string();
    std::vector<Op> ops;
    for (int i = 0; i < kRows; ++i) {
      const std::string name = "n" + std::to_string(i);
      std::string key = "configmaps";
      key.append(1, '\0').append("root").append(1, '\0').append("default").append(1, '\0');
      ops.push_back(put(key + name, std::string(static_cast<std::size_t>(i % 700), 'x') + name));
      if (ops.size() == 100) {
        EXPECT_TRUE((*store)->commit_wait(std::exchange(ops, {})));
      }
    }
    write(**store, put("plain/%key", "slash"), put(std::string("\x02odd\xff", 5), "odd"),
          put("large", std::string(1'500'000, 'l')));
    write(**store, put("gone", "1"));
    const Revision last = write(**store, erase("gone"));
    rows_ = rows_of(**store);
    EXPECT_EQ(rows_.size(), kRows + 3U);
    return last;
  }
  static Rows rows_of(const Store& store) {
    Rows rows;
    EXPECT_TRUE(store.range({}, [&rows](const EntryView& entry) {
      rows.emplace(entry.key, entry.value);
      return true;
    }));
    return rows;
  }
  static Expected<std::unique_ptr<LmdbStore>> open_lmdb(const std::string& directory,
                                                        bool force = false) {
    LmdbParams params;
    params.directory = directory;
    params.no_sync = true;
    params.opens_moved = force;
    return LmdbStore::open(std::move(params));
  }
  [[nodiscard]] Expected<std::unique_ptr<EtcdStore>> open_etcd(bool force = false) const {
    const TempDir mirror;
    EtcdParams params = etcd_;
    params.mirror_directory = mirror.data();
    params.opens_moved = force;
    return EtcdStore::open(std::move(params));
  }
  /// In a process of its own, which ends as if killed once so many rows were written.
  void killed_after(std::uint64_t rows, const std::function<void(TransferOptions)>& move) const {
    const pid_t child = ::fork();
    if (child == 0) {
      TransferOptions options;
      options.tell = [rows](std::uint64_t written) {
        if (written >= rows) {
          ::_exit(9);
        }
      };
      move(options);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_EQ(WEXITSTATUS(status), 9) << "it was faster";
  }

  TempDir from_, back_;
  EtcdParams etcd_;
  Rows rows_;
};

TEST_F(TransferTest, GR_306_ToEtcdAndBack_EverythingIsThereAndRevisionsRise) {
  const Revision last = make_store();
  const auto there = move_to_etcd(from_.data(), etcd_, {});
  ASSERT_TRUE(there) << there.error().to_string();
  EXPECT_EQ(there->rows, rows_.size());
  EXPECT_EQ(there->before, last);
  Revision newest = 0;
  {
    auto store = open_etcd();
    ASSERT_TRUE(store) << store.error().to_string();
    EXPECT_EQ(rows_of(**store), rows_);
    EXPECT_EQ((*store)->changes("", last, 10).error().code(), Errc::kCompacted) << "410 once";
    EXPECT_GT((*store)->get("large")->modified, last + kTransferJump);
    EXPECT_LE((*store)->get("large")->modified, there->after);
    newest = write(**store, put("large", "small now"), put("new", "1"), erase("plain/%key"));
    EXPECT_GT(newest, there->after);
    rows_ = rows_of(**store);
  }
  const auto refused = open_lmdb(from_.data());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kConfig);
  EXPECT_THAT(refused.error().to_string(), HasSubstr(etcd_.prefix + " in etcd; --force"));
  EXPECT_TRUE(has_moved(from_.data()));
  EXPECT_TRUE(open_lmdb(from_.data(), true));

  const auto back = move_to_lmdb(etcd_, back_.data(), {});
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->rows, rows_.size());
  EXPECT_GE(back->before, newest);
  EXPECT_EQ(back->after, back->before + kTransferJump);
  const auto moved = open_etcd();
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().code(), Errc::kConfig);
  EXPECT_THAT(moved.error().to_string(), HasSubstr(back_.data() + "; --force"));
  EXPECT_TRUE(open_etcd(true));
  auto store = open_lmdb(back_.data());
  ASSERT_TRUE(store) << store.error().to_string();
  EXPECT_EQ(rows_of(**store), rows_);
  EXPECT_EQ((*store)->get("new")->modified, newest) << "rows keep their revisions";
  EXPECT_EQ((*store)->changes("", newest, 10).error().code(), Errc::kCompacted);
  EXPECT_GT(write(**store, put("next", "1")), newest + kTransferJump);
  EXPECT_TRUE((*store)->verify()->problems.empty());
}

TEST_F(TransferTest, GR_306_KilledOnTheWayToEtcd_NothingIsThereThatStarts) {
  make_store();
  killed_after(3'000, [this](const TransferOptions& options) {
    (void)move_to_etcd(from_.data(), etcd_, options);
  });
  const auto half = open_etcd(true);
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().code(), Errc::kConfig);
  EXPECT_THAT(half.error().to_string(), HasSubstr("has not ended: `kintsugi store copy` again"));
  ASSERT_TRUE(open_lmdb(from_.data())) << "the source goes on";
  EXPECT_FALSE(has_moved(from_.data()));

  // What was not finished is nobody's but the source's.
  const TempDir other;
  {
    auto maker = StoreMaker::make(other.data());
    ASSERT_TRUE(maker && (*maker)->finish(5));
  }
  EXPECT_EQ(move_to_etcd(other.data(), etcd_, {}).error().code(), Errc::kConfig);
  const auto again = move_to_etcd(from_.data(), etcd_, {});
  ASSERT_TRUE(again) << again.error().to_string();
  auto store = open_etcd();
  ASSERT_TRUE(store);
  EXPECT_EQ(rows_of(**store), rows_);
}

TEST_F(TransferTest, GR_306_KilledOnTheWayBack_NothingIsThereThatStarts) {
  make_store();
  ASSERT_TRUE(move_to_etcd(from_.data(), etcd_, {}));
  killed_after(3'000, [this](const TransferOptions& options) {
    (void)move_to_lmdb(etcd_, back_.data(), options);
  });
  EXPECT_FALSE(std::filesystem::exists(back_.data()));
  ASSERT_TRUE(open_etcd()) << "the source goes on";
  const auto again = move_to_lmdb(etcd_, back_.data(), {});
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_FALSE(std::filesystem::exists(back_.data() + ".partial"));
  auto store = open_lmdb(back_.data());
  ASSERT_TRUE(store);
  EXPECT_EQ(rows_of(**store), rows_);
}

TEST_F(TransferTest, GR_306_ARunThatEndedBetweenTheTwoIsRepeated) {
  make_store();
  {
    auto source = LmdbSource::open(from_.data());
    ASSERT_TRUE(source && (*source)->mark_moved(etcd_.prefix + " in etcd"));
  }
  ASSERT_FALSE(open_lmdb(from_.data()));
  EXPECT_TRUE(move_to_etcd(from_.data(), etcd_, {}));
  EtcdParams elsewhere = etcd_;
  elsewhere.prefix += "-other";
  const auto moved = move_to_etcd(from_.data(), elsewhere, {});
  ASSERT_FALSE(moved);
  EXPECT_THAT(moved.error().to_string(), HasSubstr("--force copies it nevertheless"));
  TransferOptions force;
  force.force = true;
  EXPECT_TRUE(move_to_etcd(from_.data(), elsewhere, force));
}

TEST_F(TransferTest, GR_306_WhatIsThereOrInUseIsLeftAlone) {
  make_store();
  Replica user(test_etcd().url(), etcd_.prefix);
  write(*user, put("somebody's", "1"));
  const auto full = move_to_etcd(from_.data(), etcd_, {});
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().to_string(), HasSubstr("is not empty"));
  EXPECT_EQ(user->get("somebody's")->value.view(), "1");

  const auto duty = user->compete("controllers", [](const std::optional<Fence>&) {});
  const TimePoint until = Clock::now() + seconds(30);
  Expected<TransferReport> used = fail(Errc::kInternal);
  do {
    std::filesystem::remove_all(back_.data());
    used = move_to_lmdb(etcd_, back_.data(), {});
  } while (used && Clock::now() < until);
  ASSERT_FALSE(used);
  EXPECT_THAT(used.error().to_string(), HasSubstr("is in use"));

  std::filesystem::create_directories(back_.data());
  const auto mine = open_lmdb(back_.data());
  ASSERT_TRUE(mine);
  EXPECT_THAT(move_to_lmdb(etcd_, back_.data(), {}).error().to_string(), HasSubstr("is not empty"));
  EXPECT_THAT(move_to_etcd(back_.data(), etcd_, {}).error().to_string(), HasSubstr("in use"));
}

TEST_F(TransferTest, GR_307_RevisionsThatGetTooLargeAreRefused) {
  {
    auto maker = StoreMaker::make(from_.data());
    ASSERT_TRUE(maker && (*maker)->finish((Revision{1} << 44U) - kTransferJump / 2));
  }
  const auto moved = move_to_etcd(from_.data(), etcd_, {});
  ASSERT_FALSE(moved);
  EXPECT_THAT(moved.error().to_string(), HasSubstr("too large"));
  EXPECT_FALSE(has_moved(from_.data()));
}

}  // namespace
}  // namespace kintsugi::store
