#include "store/lmdb/rewrite.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "base/time.h"
#include "store/lmdb/backup.h"
#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<LmdbStore> open_at(const std::string& directory) {
  LmdbParams params;
  params.directory = directory;
  params.no_sync = true;
  auto store = LmdbStore::open(std::move(params));
  EXPECT_TRUE(store) << store.error().to_string();
  return store ? std::move(*store) : nullptr;
}

/// All bytes of the data file.
std::string file_bytes(const std::string& directory) {
  std::ifstream in(directory + "/data.mdb", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Puts "new-" in front, once.
Expected<std::string> mark_new(std::string_view, std::string_view value) {
  return (value.starts_with("new-") ? "" : "new-") + std::string(value);
}

TEST(StoreRewrite, SE151_WhenRewritten_RevisionsHistoryAndEventsStay) {
  const TempDir directory;
  {
    const auto store = open_at(directory.data());
    write(*store, put("a", "canary1"), put("b", "x"));
    write(*store, put("a", "canary2"));
    write(*store, erase("b", {}, "canary3"));
    write(*store, put("c", ""));
  }
  const auto report =
      rewrite_store(directory.data(), [](std::string_view key, std::string_view value) {
        return Expected<std::string>(
            value.empty() ? std::string() : std::string(key) + std::to_string(value.size()));
      });
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->revision, 4U);
  EXPECT_EQ(report->values, 5U);     // a, c; a and b as they were; b's last state
  EXPECT_EQ(report->rewritten, 4U);  // the empty one stays
  EXPECT_EQ(report->kept_count, 0U);
  EXPECT_THAT(file_bytes(directory.data()), Not(HasSubstr("canary")));
  const auto store = open_at(directory.data());
  EXPECT_EQ(store->current(), 4U);
  EXPECT_THAT(rows(*store, {"", "", 0}), ElementsAre("a=a7@2/1", "c=@4/4"));
  EXPECT_THAT(rows(*store, {"", "", 1}), ElementsAre("a=a7@1/1", "b=b1@1/1"));
  EXPECT_THAT(describe(store->changes("", 1, 10)->events),
              ElementsAre("2 +a=a7 (a7@1/1)", "3 -b=b7 (b1@1/1)", "4 +c= (@0/4)"));
  EXPECT_EQ(store->verify()->problem_count, 0U);
  EXPECT_EQ(write(*store, put("d", "1")), 5U);
}

TEST(StoreRewrite, WhenPagesAreFree_WhatStoodThereIsGone) {
  const TempDir directory;
  {
    LmdbParams params;
    params.directory = directory.data();
    params.no_sync = true;
    params.history_age = Duration(0);
    params.history_events = 0;
    auto store = LmdbStore::open(std::move(params));
    ASSERT_TRUE(store);
    for (int i = 0; i < 200; ++i) {
      write(**store, put("k" + std::to_string(i), "canary" + std::string(500, 'x')));
    }
    for (int i = 0; i < 200; ++i) {
      write(**store, erase("k" + std::to_string(i)));
    }
    (*store)->compact((*store)->current());
    (*store)->compact_now_for_test();
    ASSERT_EQ((*store)->compacted(), (*store)->current());
  }
  ASSERT_THAT(file_bytes(directory.data()), HasSubstr("canary"));  // in free pages
  const auto same = [](std::string_view, std::string_view value) {
    return Expected<std::string>(std::string(value));
  };
  ASSERT_TRUE(rewrite_store(directory.data(), same));
  EXPECT_THAT(file_bytes(directory.data()), Not(HasSubstr("canary")));
}

TEST(StoreRewrite, WhenAValueCannotBeRead_ItStaysAndIsTold) {
  const TempDir directory;
  {
    const auto store = open_at(directory.data());
    write(*store, put("a", "1"), put("b", "2"), put("c", "3"));
  }
  const RewriteValue rewrite = [](std::string_view key,
                                  std::string_view value) -> Expected<std::string> {
    if (key == "b") {
      return fail(Errc::kInternal, "another key");
    }
    return mark_new(key, value);
  };
  for (const std::uint64_t rewritten : {2U, 0U}) {  // and again: nothing is left to do
    const auto report = rewrite_store(directory.data(), rewrite);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->rewritten, rewritten);
    EXPECT_EQ(report->kept_count, 1U);
    EXPECT_THAT(report->kept, ElementsAre("b: another key"));
  }
  EXPECT_THAT(rows(*open_at(directory.data()), {"", "", 0}),
              ElementsAre("a=new-1@1/1", "b=2@1/1", "c=new-3@1/1"));
}

TEST(StoreRewrite, WhenInUseOrAbsent_ChangesNothing) {
  const TempDir directory;
  EXPECT_THAT(std::string(rewrite_store(directory.data(), mark_new).error().message()),
              HasSubstr("no store is there"));
  const auto store = open_at(directory.data());
  write(*store, put("a", "1"));
  const auto report = rewrite_store(directory.data(), mark_new);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Errc::kConfig);
  EXPECT_THAT(std::string(report.error().message()), HasSubstr("already in use"));
  EXPECT_EQ(store->get("a")->value.view(), "1");
}

class KilledRewrite : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kKeys = 12'000;  // several transactions

  void SetUp() override {
    const auto store = open_at(directory_.data());
    for (std::uint64_t i = 0; i < kKeys; i += 100) {
      std::vector<Op> ops;
      for (std::uint64_t j = i; j < i + 100; ++j) {
        ops.push_back(put("k" + std::to_string(j), "value" + std::to_string(j)));
      }
      ASSERT_TRUE(store->commit_wait(std::move(ops)));
    }
  }
  /// Rewrites in another process, which dies at its n-th value (0: lives) or when this one says.
  [[nodiscard]] pid_t rewrite_elsewhere(std::uint64_t dies_at) const {
    const pid_t child = ::fork();
    if (child == 0) {
      std::uint64_t count = 0;
      const auto report =
          rewrite_store(directory_.data(), [&](std::string_view key, std::string_view value) {
            if (++count == dies_at) {
              ::kill(::getpid(), SIGKILL);
            }
            return mark_new(key, value);
          });
      ::_exit(report ? 0 : 1);
    }
    return child;
  }
  [[nodiscard]] static bool was_killed(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFSIGNALED(status);
  }
  /// Whether all values are new ones; fails if only some are.
  [[nodiscard]] bool is_new() const {
    const auto store = open_at(directory_.data());
    EXPECT_EQ(store->verify()->problem_count, 0U);
    std::uint64_t old = 0;
    std::uint64_t fresh = 0;
    EXPECT_TRUE(store->range({"", "", 0}, [&](const EntryView& entry) {
      (entry.value.starts_with("new-value") ? fresh : old) += 1;
      return true;
    }));
    EXPECT_EQ(old + fresh, kKeys);
    EXPECT_TRUE(old == 0 || fresh == 0) << old << " " << fresh;
    return old == 0;
  }

  const TempDir directory_;
};

TEST_F(KilledRewrite, SE_T064_WhenKilledAtAnyValue_EverythingIsAsBefore) {
  for (const std::uint64_t value : {std::uint64_t{1}, std::uint64_t{4'999}, std::uint64_t{5'001},
                                    std::uint64_t{11'111}, kKeys}) {
    EXPECT_TRUE(was_killed(rewrite_elsewhere(value)));
    EXPECT_FALSE(is_new()) << value;
  }
  EXPECT_TRUE(std::filesystem::exists(directory_.data() + "/rewrite.partial"));
  const auto report = rewrite_store(directory_.data(), mark_new);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->rewritten, kKeys);
  EXPECT_FALSE(std::filesystem::exists(directory_.data() + "/rewrite.partial"));
  EXPECT_TRUE(is_new());
}

TEST_F(KilledRewrite, SE_T064_WhenKilledWhileTheFileIsPutInPlace_OneOfTheTwoIsThere) {
  const std::string made = directory_.data() + "/rewrite.partial/data.mdb";
  const std::string lock = directory_.data() + "/lock.mdb";
  for (int round = 0; round < 4; ++round) {
    const pid_t child = rewrite_elsewhere(0);
    const TimePoint deadline = Clock::now() + seconds(60);
    std::error_code ignored;
    while (!std::filesystem::exists(made, ignored) && Clock::now() < deadline) {
    }
    // The lock file goes, then the new file: the odd rounds wait for the one, others for the other.
    while (std::filesystem::exists(round % 2 == 0 ? made : lock, ignored) &&
           Clock::now() < deadline) {
    }
    ::kill(child, SIGKILL);
    static_cast<void>(was_killed(child));
    static_cast<void>(is_new());
  }
  ASSERT_TRUE(rewrite_store(directory_.data(), mark_new));
  EXPECT_TRUE(is_new());
}

TEST(StoreRewrite, WhenRewritten_BackupsWork) {
  const TempDir directory;
  const TempDir other;
  write(*open_at(directory.data()), put("a", "1"));
  ASSERT_TRUE(rewrite_store(directory.data(), mark_new));
  ASSERT_TRUE(backup_store(directory.data(), other.data()));
  EXPECT_THAT(rows(*open_at(other.data()), {"", "", 0}), ElementsAre("a=new-1@1/1"));
}

}  // namespace
}  // namespace kintsugi::store
