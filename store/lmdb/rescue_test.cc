#include "store/lmdb/rescue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "store/batches.h"
#include "store/lmdb/backup.h"
#include "store/lmdb/check.h"
#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

namespace fs = std::filesystem;

TEST(LostRanges, GR_415_FindsTheFirst) {
  const LostRanges lost({{"current", "m", "p"},
                         {"current", "b", "d"},
                         {"current", "c", "f"},
                         {"current", "x", ""},
                         {"current", "z", "zz"}});
  EXPECT_EQ(lost.size(), 3U);
  const auto first = [&lost](std::string_view from, std::string_view end) {
    const LostKeys* found = lost.find(from, end);
    return found == nullptr ? std::string("-") : found->first;
  };
  EXPECT_EQ(first("", ""), "b");
  EXPECT_EQ(first("a", "b"), "-");
  EXPECT_EQ(first("a", "ba"), "b");
  EXPECT_EQ(first("e", "ea"), "b");
  EXPECT_EQ(first("f", "m"), "-");
  EXPECT_EQ(first("f", ""), "m");
  EXPECT_EQ(first("p", "x"), "-");
  EXPECT_EQ(first("y", "ya"), "x");
  EXPECT_EQ(LostRanges().find("", ""), nullptr);
}

class Rescue : public ::testing::Test {
 protected:
  static constexpr std::size_t kPage = 4096;

  Rescue() {
    params_.directory = directory_.data();
    params_.map_limit = std::uint64_t{64} << 20;
    params_.no_sync = true;
    auto store = LmdbStore::open(params_);
    EXPECT_TRUE(store);
    for (int round = 0; round < 4; ++round) {
      std::vector<Op> ops;
      for (int i = round; i < 400; i += 1 + round) {
        const std::string number = std::to_string(1000 + i);
        ops.push_back(
            put("kind" + std::to_string(i % 3) + "/" + number,
                std::string(i % 50 == 0 ? 12'000 : 100 + i, static_cast<char>('a' + round))));
      }
      std::sort(ops.begin(), ops.end(), [](const Op& a, const Op& b) { return a.key < b.key; });
      while (!ops.empty()) {
        EXPECT_TRUE((*store)->commit_wait(take_batch(ops, (*store)->limits())));
      }
    }
    live_before_ = rows_of(**store);
    revision_before_ = (*store)->current();
    revision_ = write(**store, put("kind0/1000", "the last"), erase("kind1/1001"));
    live_ = rows_of(**store);
    store->reset();
    std::ifstream file(path(), std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }
  static std::map<std::string, std::string> rows_of(const Store& store) {
    std::map<std::string, std::string> rows;
    EXPECT_TRUE(store.range({}, [&rows](const EntryView& entry) {
      rows[std::string(entry.key)] = entry.value;
      return true;
    }));
    return rows;
  }
  [[nodiscard]] std::string path() const { return params_.directory + "/data.mdb"; }
  void write_file(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
  }
  /// The file without the page of `current` that holds the key; other tables have the key, too.
  [[nodiscard]] std::string without_page_of(const std::string& key) const {
    for (std::size_t at = bytes_.find(key); at != std::string::npos;
         at = bytes_.find(key, at + 1)) {
      std::string bytes = bytes_;
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at / kPage * kPage), kPage, '\0');
      write_file(bytes);
      const auto found = walk_file(path());
      if (found && std::any_of(found->lost.begin(), found->lost.end(), [](const LostKeys& lost) {
            return lost.table == "current" && !lost.end.empty();
          })) {
        return bytes;
      }
    }
    ADD_FAILURE() << key << " is nowhere";
    return bytes_;
  }
  [[nodiscard]] std::unique_ptr<Store> open() const {
    auto opened = open_or_rescue(params_);
    EXPECT_TRUE(opened) << opened.error().to_string();
    return opened ? std::move(*opened) : nullptr;
  }
  /// Every read tells the truth, or that it does not know. @returns how many objects are there
  std::size_t judge(const Store& store) const {
    std::size_t found = 0;
    for (const auto& [key, value] : live_) {
      const auto entry = store.get(key);
      EXPECT_TRUE(entry ? entry->value.view() == value : entry.error().code() == Errc::kCorrupt)
          << key;
      found += entry ? 1U : 0U;
    }
    for (const char* prefix : {"", "kind0/", "kind1/", "kind2/"}) {
      std::map<std::string, std::string> seen;
      const auto listed = store.range({prefix, "", 0}, [&seen](const EntryView& entry) {
        seen[std::string(entry.key)] = entry.value;
        return true;
      });
      for (const auto& [key, value] : seen) {
        const auto before = live_.find(key);
        EXPECT_TRUE(before != live_.end() && before->second == value) << key;
      }
      if (listed) {
        std::size_t all = 0;
        for (const auto& [key, value] : live_) {
          all += key.starts_with(prefix) ? 1U : 0U;
        }
        EXPECT_EQ(seen.size(), all) << "a short list of \"" << prefix << '"';
      } else {
        EXPECT_EQ(listed.error().code(), Errc::kCorrupt);
      }
    }
    return found;
  }

  TempDir directory_;
  LmdbParams params_;
  Revision revision_before_ = 0, revision_ = 0;  ///< the last commit is between them
  std::map<std::string, std::string> live_before_, live_;
  std::string bytes_;
};

TEST_F(Rescue, GR_415_WhenTheStoreIsSound_ItIsOpenedAsEver) {
  const auto store = open();
  ASSERT_NE(store, nullptr);
  EXPECT_TRUE(store->health());
  EXPECT_EQ(judge(*store), live_.size());
  EXPECT_NE(write(*store, put("new", "1")), 0U);
  EXPECT_FALSE(fs::exists(params_.directory + "/rescued"));
}

TEST_F(Rescue, GR_415_WhenAPageIsLost_TheRestIsServedAndNothingIsWritten) {
  const std::string bytes = without_page_of("kind1/1100");
  write_file(bytes);
  {
    const auto store = open();
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(store->health().error().code(), Errc::kCorrupt);
    EXPECT_THAT(std::string(store->health().error().message()),
                StartsWith("the store is damaged: page "));
    const std::size_t found = judge(*store);
    EXPECT_LT(found, live_.size());
    EXPECT_GT(found, live_.size() / 2);
    EXPECT_EQ(store->get("kind1/1100").error().code(), Errc::kCorrupt);
    EXPECT_EQ(store->get("other").error().code(), Errc::kNotFound);
    EXPECT_TRUE(store->range({"kind0/", "", 0}, [](const EntryView&) { return true; }));
    EXPECT_EQ(store->count({"kind1/", "", 0}).error().code(), Errc::kCorrupt);
    EXPECT_TRUE(store->count({"kind0/", "", 0}));
    EXPECT_EQ(error_of(store->commit_wait({put("kind0/new", "1")})), Errc::kUnavailable);
    EXPECT_EQ(error_of(store->commit_wait({erase("kind0/1000")})), Errc::kUnavailable);
    EXPECT_EQ(store->current(), revision_);
    EXPECT_EQ(store->changes("", revision_ - 1, 10).error().code(), Errc::kCompacted);
    EXPECT_TRUE(store->changes("", revision_, 10));
    EXPECT_FALSE(open_or_rescue(params_)) << "one process only";
  }
  std::ifstream file(path(), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), bytes) << "left as it was";
  // What is left becomes a store of its own, later than everything that was said.
  const std::string restored = params_.directory + "-restored";
  const auto report = restore_store(params_.directory + "/rescued", restored);
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->revision, revision_ + kRestoreJump);
  const auto checked = check_store(restored, {});
  ASSERT_TRUE(checked);
  EXPECT_EQ(checked->problems(), 0U);
}

TEST_F(Rescue, GR_415_WhenAListStopsBeforeWhatIsLost_ItIsAnswered) {
  const std::string bytes = without_page_of("kind1/1100");
  write_file(bytes);
  const auto store = open();
  ASSERT_NE(store, nullptr);
  int left = 3;
  EXPECT_TRUE(store->range({"", "", 0}, [&left](const EntryView&) { return --left > 0; }));
  EXPECT_FALSE(store->range({"", "", 0}, [](const EntryView&) { return true; }));
}

TEST_F(Rescue, GR_415_WhenNothingCanBeFound_ItIsNotOpened) {
  std::string bytes = bytes_;
  std::fill_n(bytes.begin(), 2 * kPage, '\0');
  write_file(bytes);
  const auto opened = open_or_rescue(params_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Errc::kCorrupt);
  EXPECT_THAT(std::string(opened.error().message()), HasSubstr("page 1"));
  write_file("something else");
  EXPECT_EQ(open_or_rescue(params_).error().code(), Errc::kCorrupt);
}

using Random = std::mt19937_64;
constexpr std::size_t kPageBytes = 4096;

char* page_at(std::string& bytes, std::size_t page) { return bytes.data() + page * kPageBytes; }
void flip_bit(char* page, std::size_t most, Random& random) {
  page[random() % most] ^= static_cast<char>(1U << random() % 8);
}

struct Damage {
  const char* name;
  void (*make)(std::string& bytes, std::size_t page, Random& random);
};
constexpr Damage kDamages[] = {
    {"bit", [](std::string& bytes, std::size_t page,
               Random& random) { flip_bit(page_at(bytes, page), kPageBytes, random); }},
    {"zeroed", [](std::string& bytes, std::size_t page,
                  Random&) { std::fill_n(page_at(bytes, page), kPageBytes, '\0'); }},
    {"swapped",
     [](std::string& bytes, std::size_t page, Random& random) {
       char* const at = page_at(bytes, page);
       std::swap_ranges(at, at + kPageBytes,
                        page_at(bytes, random() % (bytes.size() / kPageBytes)));
     }},
    {"cut", [](std::string& bytes, std::size_t,
               Random& random) { bytes.resize(random() % bytes.size()); }},
    {"foreign",
     [](std::string& bytes, std::size_t page, Random& random) {
       std::generate_n(page_at(bytes, page), kPageBytes,
                       [&random] { return static_cast<char>(random()); });
     }},
    {"bit of the head", [](std::string& bytes, std::size_t page,
                           Random& random) { flip_bit(page_at(bytes, page), 64, random); }},
    {"bit of a meta page", [](std::string& bytes, std::size_t page,
                              Random& random) { flip_bit(page_at(bytes, page % 2), 152, random); }},
    {"zeroed meta page", [](std::string& bytes, std::size_t page,
                            Random&) { std::fill_n(page_at(bytes, page % 2), kPageBytes, '\0'); }},
};

/// KINTSUGI_DAMAGED_COPIES says how many.
TEST_F(Rescue, GR_415_WhateverIsDamaged_NoSignalAndNothingWrong) {
  Random random(4);
  const char* const wanted = std::getenv("KINTSUGI_DAMAGED_COPIES");
  const int copies = wanted == nullptr ? 80 : std::atoi(wanted);
  int rescued = 0, refused = 0;
  for (int i = 0; i < copies; ++i) {
    const Damage& damage = kDamages[static_cast<std::size_t>(i) % std::size(kDamages)];
    SCOPED_TRACE("copy " + std::to_string(i) + ": " + damage.name);
    std::string bytes = bytes_;
    damage.make(bytes, random() % (bytes.size() / kPageBytes), random);
    fs::remove_all(params_.directory + "/rescued");
    fs::remove(params_.directory + "/lock.mdb");
    write_file(bytes);
    const auto checked = check_store(params_.directory, {});
    const auto store = open_or_rescue(params_);
    if (!store) {
      ++refused;
      EXPECT_LT(bytes.size(), 2 * kPageBytes) << store.error().to_string();
      continue;
    }
    const bool is_rescued = !(*store)->health();
    rescued += is_rescued ? 1 : 0;
    ASSERT_TRUE(checked);
    EXPECT_EQ(is_rescued, checked->pages.problem_count > 0);
    EXPECT_EQ(checked->problems() > 0,
              checked->pages.problems.size() + checked->rows.problems.size() > 0);
    if (bytes != bytes_ && (*store)->current() == revision_before_) {
      EXPECT_TRUE(is_rescued) << "said that the last commit may be missing";
      std::swap(live_, live_before_);
      judge(**store);
      std::swap(live_, live_before_);
    } else {
      judge(**store);
    }
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  EXPECT_GT(rescued, copies / 3);
  EXPECT_LT(refused, copies / 5);
}

class Check : public Rescue {};

TEST_F(Check, GR_416_WhenThereIsNone_NothingIsMade) {
  const std::string none = params_.directory + "/../none";
  EXPECT_EQ(check_store(none, {}).error().code(), Errc::kNotFound);
  EXPECT_FALSE(fs::exists(none));
  fs::create_directory(none);
  EXPECT_EQ(check_store(none, {}).error().code(), Errc::kNotFound);
  EXPECT_TRUE(fs::is_empty(none));
  std::ofstream(none + "/data.mdb") << "text";
  EXPECT_EQ(check_store(none, {}).error().code(), Errc::kNotFound);
  EXPECT_EQ(std::distance(fs::directory_iterator(none), {}), 1);
}

TEST_F(Check, GR_416_WhenItIsSound_NoFileIsMadeOrWritten) {
  fs::remove(params_.directory + "/lock.mdb");
  fs::remove(params_.directory + "/store.lock");
  const auto before = fs::last_write_time(path());
  const auto report = check_store(params_.directory, {});
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->problems(), 0U);
  EXPECT_EQ(report->rows.live, live_.size());
  EXPECT_EQ(report->rows.revision, revision_);
  EXPECT_EQ(fs::last_write_time(path()), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(params_.directory), {}), 1);
}

TEST_F(Check, GR_416_WhenItIsInUse_ItSaysByWhom) {
  const auto store = open();
  const auto report = check_store(params_.directory, {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Errc::kConfig);
  EXPECT_THAT(std::string(report.error().message()), HasSubstr("in use by process"));
}

TEST_F(Check, GR_416_WhenARecordIsDamaged_ItIsNamed) {
  std::string bytes = bytes_;
  bytes[bytes.rfind("kind2/1101") + 60] ^= 1;
  write_file(bytes);
  const auto report = check_store(params_.directory, {});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->pages.sound());
  EXPECT_GT(report->rows.problem_count, 0U);
  EXPECT_THAT(report->rows.problems.front(), HasSubstr("damaged"));
}

}  // namespace
}  // namespace kintsugi::store
