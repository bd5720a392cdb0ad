#include "store/lmdb/internal/page_walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "store/batches.h"
#include "store/lmdb/internal/layout.h"
#include "store/lmdb/internal/page_format.h"
#include "store/lmdb/lmdb_store.h"
#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A store as a shard leaves it: several levels, large values, history, free pages.
class PageWalk : public ::testing::Test {
 protected:
  PageWalk() {
    LmdbParams params;
    params.directory = directory_.data();
    params.map_limit = std::uint64_t{64} << 20;
    params.no_sync = true;
    auto opened = LmdbStore::open(params);
    EXPECT_TRUE(opened);
    LmdbStore& store = **opened;
    std::mt19937 random(seed_);
    for (int round = 0; round < 12; ++round) {
      std::vector<Op> ops;
      for (int i = 0; i < 250; ++i) {
        const std::size_t size = i % 40 == 0 ? 9'000 + random() % 30'000 : random() % 600;
        ops.push_back(put("configmaps/c" + std::to_string(i % 7) + "/name-" +
                              std::to_string((i * 37 + round) % 1000),
                          std::string(size, static_cast<char>('a' + round))));
      }
      std::sort(ops.begin(), ops.end(), [](const Op& a, const Op& b) { return a.key < b.key; });
      ops.erase(std::unique(ops.begin(), ops.end(),
                            [](const Op& a, const Op& b) { return a.key == b.key; }),
                ops.end());
      while (!ops.empty()) {
        EXPECT_TRUE(store.commit_wait(take_batch(ops, store.limits())));
      }
    }
    store.compact(6);
    store.compact_now_for_test();
    EXPECT_TRUE(store.commit_wait({put("configmaps/c0/the-last", "x")}));
    EXPECT_TRUE(store.range({}, [this](const EntryView& entry) {
      live_[std::string(entry.key)] = entry.value;
      return true;
    }));
    opened->reset();
    std::ifstream file(path(), std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    EXPECT_GT(bytes_.size(), 100 * kPage);
  }
  [[nodiscard]] std::string path() const { return std::string(directory_.data()) + "/data.mdb"; }

  /// What is left of `current`, by what a reader would believe.
  struct Seen {
    PageReport report;
    std::map<std::string, std::string> rows;
    std::size_t damaged = 0;
  };
  static Seen walk(const std::string& bytes) {
    Seen seen;
    const ReadAt read = [&bytes](std::uint64_t offset, char* out,
                                 std::size_t size) -> Expected<std::size_t> {
      if (offset >= bytes.size()) {
        return std::size_t{0};
      }
      const std::size_t count = std::min<std::size_t>(size, bytes.size() - offset);
      std::memcpy(out, bytes.data() + offset, count);
      return count;
    };
    seen.report =
        walk_pages(read, bytes.size(),
                   [&seen](std::string_view table, std::string_view key, std::string_view value) {
                     if (table == "current") {
                       const auto row = layout::decode_version(key, value);
                       if (row) {
                         seen.rows[std::string(key)] = row->value;
                       } else {
                         ++seen.damaged;
                       }
                     }
                   });
    return seen;
  }
  static bool is_lost(const PageReport& report, const std::string& key) {
    return std::any_of(report.lost.begin(), report.lost.end(), [&](const LostKeys& lost) {
      return lost.table == "current" && key >= lost.first && (lost.end.empty() || key < lost.end);
    });
  }
  static constexpr std::size_t kTransactionAt = 144;  // in a meta page
  static std::uint64_t transaction_of(const std::string& bytes, std::size_t page) {
    return pages::number_at<8>(bytes, page * kPage + kTransactionAt);
  }
  /// The meta page of the last commit.
  [[nodiscard]] std::size_t newest_meta() const {
    return transaction_of(bytes_, 1) > transaction_of(bytes_, 0) ? 1 : 0;
  }
  /// The pages that a walk over the last commit reads, in its order.
  [[nodiscard]] std::vector<std::uint64_t> used_pages() const {
    std::vector<std::uint64_t> pages;
    std::string bytes = bytes_;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>((1 - newest_meta()) * kPage), kPage,
                '\0');  // so that nothing of the commit before is looked at
    const ReadAt read = [&](std::uint64_t offset, char* out,
                            std::size_t size) -> Expected<std::size_t> {
      if (size == kPage && offset >= 2 * kPage) {
        pages.push_back(offset / kPage);
      }
      std::memcpy(out, bytes.data() + offset, size);
      return size;
    };
    EXPECT_EQ(walk_pages(read, bytes.size()).problem_count, 1U);
    return pages;
  }

  static constexpr std::size_t kPage = 4096;
  const unsigned seed_ = 20'261'127;
  TempDir directory_;
  std::map<std::string, std::string> live_;
  std::string bytes_;
};

TEST_F(PageWalk, GR_413_WhenTheStoreIsSound_EverythingIsThere) {
  const Seen seen = walk(bytes_);
  EXPECT_TRUE(seen.report.sound()) << ::testing::PrintToString(seen.report.problems);
  EXPECT_EQ(seen.rows, live_);
  EXPECT_THAT(seen.report.lost, IsEmpty());
  EXPECT_GT(seen.report.rows, live_.size());
  const auto file = walk_file(path());
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->sound());
  EXPECT_EQ(file->pages, seen.report.pages);
}

TEST_F(PageWalk, GR_413_WhenThereIsNoStore_NothingIsMade) {
  const std::string there = std::string(directory_.data());
  EXPECT_EQ(walk_file(there + "/none/data.mdb").error().code(), Errc::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(there + "/none"));
  EXPECT_EQ(walk_file(there).error().code(), Errc::kNotFound);
  EXPECT_EQ(walk_file("/dev/null").error().code(), Errc::kNotFound);
  EXPECT_FALSE(walk(std::string(3 * kPage, '\0')).report.is_store);
  EXPECT_FALSE(walk("some text").report.is_store);
  EXPECT_FALSE(walk("").report.is_store);
}

TEST_F(PageWalk, GR_413_WhenAPageIsZeroed_ItAndItsKeysAreNamed) {
  const std::vector<std::uint64_t> used = used_pages();
  for (std::size_t i = 0; i < used.size(); i += i < 40 ? 1 : 9) {
    const std::uint64_t page = used[i];
    std::string bytes = bytes_;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(page * kPage), kPage, '\0');
    const Seen seen = walk(bytes);
    ASSERT_GT(seen.report.problem_count, 0U) << "page " << page;
    EXPECT_THAT(::testing::PrintToString(seen.report.problems),
                HasSubstr("page " + std::to_string(page) + " "));
    for (const auto& [key, value] : live_) {
      const auto found = seen.rows.find(key);
      if (found == seen.rows.end()) {
        ASSERT_TRUE(is_lost(seen.report, key)) << key << " without page " << page;
      } else {
        ASSERT_EQ(found->second, value);
      }
    }
  }
}

TEST_F(PageWalk, GR_413_WhenTheFileIsCutOff_WhatIsBeyondIsNamed) {
  const std::vector<std::uint64_t> used = used_pages();
  const std::uint64_t last = *std::max_element(used.begin(), used.end());
  for (const std::uint64_t size :
       {last * kPage, last * kPage + 100, bytes_.size() / 2, 9 * kPage, 2 * kPage + 7}) {
    const Seen seen = walk(bytes_.substr(0, size));
    EXPECT_TRUE(seen.report.is_store);
    EXPECT_GT(seen.report.problem_count, 0U) << size;
    for (const auto& [key, value] : live_) {
      ASSERT_TRUE(seen.rows.contains(key) || is_lost(seen.report, key)) << key << " " << size;
    }
  }
}

TEST_F(PageWalk, GR_413_WhenOneMetaPageIsGone_TheOtherOneIsTaken) {
  for (const std::size_t page : {0U, 1U}) {
    std::string bytes = bytes_;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(page * kPage), kPage, '\0');
    const Seen seen = walk(bytes);
    EXPECT_TRUE(seen.report.is_store);
    EXPECT_FALSE(seen.report.sound());
    EXPECT_THAT(seen.report.problems.front(), HasSubstr("page " + std::to_string(page) + ": "));
  }
}

/// One bit makes the last commit the one before the last but one: numbers follow each other still.
TEST_F(PageWalk, GR_413_WhenTheLastCommitSaysThatItIsOld_ItIsTaken) {
  std::string bytes = bytes_;
  const std::uint64_t last = transaction_of(bytes, newest_meta());
  ASSERT_GT(last, 2U);
  const std::uint64_t said = last - 2;
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[newest_meta() * kPage + kTransactionAt + i] = static_cast<char>(said >> (8 * i) & 0xffU);
  }
  const Seen seen = walk(bytes);
  EXPECT_EQ(seen.rows, live_) << "what was acknowledged is there";
  const std::string text = "transaction " + std::to_string(said);
  EXPECT_THAT(seen.report.problems, testing::ElementsAre(HasSubstr(text + " has revision"),
                                                         HasSubstr(text + " does not follow")));
}

/// Copies that are damaged in one way each; KINTSUGI_DAMAGED_COPIES says how many.
TEST_F(PageWalk, GR_413_WhateverIsDamaged_NothingWrongIsBelieved) {
  std::mt19937_64 random(seed_);
  const std::vector<std::uint64_t> used = used_pages();
  const auto any_page = [&] { return used[random() % used.size()] * kPage; };
  const char* const wanted = std::getenv("KINTSUGI_DAMAGED_COPIES");
  const int copies = wanted == nullptr ? 200 : std::atoi(wanted);
  int unseen = 0;
  for (int i = 0; i < copies; ++i) {
    std::string bytes = bytes_;
    const int kind = i % 4;
    if (kind == 0) {
      const std::uint64_t at =
          random() % 9 == 0 ? random() % (2 * kPage) : any_page() + random() % kPage;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    } else if (kind == 1) {
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(any_page()), kPage, '\0');
    } else if (kind == 2) {
      const std::uint64_t a = any_page(), b = any_page();
      std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(a),
                       bytes.begin() + static_cast<std::ptrdiff_t>(a + kPage),
                       bytes.begin() + static_cast<std::ptrdiff_t>(b));
    } else {
      bytes.resize(random() % bytes.size());
    }
    if (bytes == bytes_) {
      continue;
    }
    const Seen seen = walk(bytes);
    if (!seen.report.is_store) {
      EXPECT_LT(bytes.size(), 2 * kPage) << "copy " << i;
      continue;
    }
    unseen += seen.report.sound() && seen.damaged == 0 ? 1 : 0;
    const bool is_older =  // then the commit before is what counts
        !seen.report.sound() && (seen.report.problems.front().starts_with("page 0:") ||
                                 seen.report.problems.front().starts_with("page 1:"));
    for (const auto& [key, value] : seen.rows) {
      const auto before = live_.find(key);
      ASSERT_TRUE(is_older || before != live_.end()) << "copy " << i << " invents " << key;
      ASSERT_TRUE(is_older || before->second == value) << "copy " << i << ": " << key;
    }
    for (const auto& [key, value] : live_) {
      ASSERT_TRUE(seen.rows.contains(key) || is_lost(seen.report, key) || seen.damaged > 0 ||
                  is_older)
          << "copy " << i << " loses " << key << " in silence";
    }
  }
  // Bits that mean nothing: padding, room that is free, rows of other tables.
  EXPECT_LT(unseen, copies / 6);
}

}  // namespace
}  // namespace kintsugi::store
