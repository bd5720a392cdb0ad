#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "store/lmdb/internal/page_walk.h"
#include "store/lmdb/lmdb_store.h"
#include "store/testing/test_store.h"

/// Power cuts (AM-457). A commit writes its pages, syncs, then writes one meta page. Between two
/// durable states the disk may hold any part of the new pages without the meta page, with any tail
/// of the file missing; whatever it holds, the older state must come back.
namespace kintsugi::store {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kMetaPages = 2;
constexpr std::size_t kTransactionIdAt = 144;  ///< in a meta page of LMDB 0.9
constexpr int kCommits = 60;
constexpr int kCutsPerCommit = 3;

using Rows = std::map<std::string, std::string>;

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::uint64_t transaction_of(const std::string& file) {
  std::uint64_t newest = 0;
  for (std::size_t page = 0; page < kMetaPages; ++page) {
    std::uint64_t id = 0;
    std::memcpy(&id, file.data() + page * kPage + kTransactionIdAt, sizeof(id));
    newest = std::max(newest, id);
  }
  return newest;
}

LmdbParams params_in(const std::string& directory) {
  LmdbParams params;
  params.directory = directory;
  params.map_limit = std::uint64_t{8} << 20;
  params.compaction_interval = std::chrono::hours(1);
  return params;
}

/// What the disk holds when the power goes between `before` and `after`.
std::string cut(const std::string& before, const std::string& after, std::mt19937& random) {
  std::string disk = before;
  const std::size_t pages = after.size() / kPage;
  const std::size_t reached = random() % (pages + 1);  // the file has grown this far
  disk.resize(std::max(before.size(), std::max(reached, kMetaPages) * kPage), '\0');
  for (std::size_t page = kMetaPages; page < std::min(pages, disk.size() / kPage); ++page) {
    if (random() % 2 == 0) {
      continue;
    }
    const std::size_t bytes = random() % 4 == 0 ? 512 * (random() % 8) : kPage;  // torn or whole
    std::copy_n(after.begin() + static_cast<std::ptrdiff_t>(page * kPage), bytes,
                disk.begin() + static_cast<std::ptrdiff_t>(page * kPage));
  }
  return disk;
}

void expect_state(const std::string& disk, Revision revision, const Rows& rows) {
  const TempDir directory;
  std::filesystem::create_directories(directory.data());
  std::ofstream(directory.data() + "/data.mdb", std::ios::binary) << disk;
  const auto pages = walk_file(directory.data() + "/data.mdb");  // GR-413: nothing to complain of
  ASSERT_TRUE(pages && pages->sound()) << ::testing::PrintToString(pages->problems);
  auto opened = LmdbStore::open(params_in(directory.data()));
  ASSERT_TRUE(opened) << opened.error().to_string();
  EXPECT_EQ((*opened)->current(), revision);
  Rows found;
  ASSERT_TRUE((*opened)->range({"", "", 0}, [&found](const EntryView& entry) {
    found.emplace(entry.key, entry.value);
    return true;
  }));
  EXPECT_EQ(found, rows);
  const auto report = (*opened)->verify();
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->problem_count, 0U) << report->problems.front();
  EXPECT_EQ(write(**opened, put("after", "the cut")), revision + 1);
}

TEST(LmdbPowerCut, WhenPowerGoesDuringACommit_AM457_TheLastDurableOneComesBack) {
  const TempDir directory;
  std::random_device device;
  const std::uint32_t seed = device();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto opened = LmdbStore::open(params_in(directory.data()));
  ASSERT_TRUE(opened) << opened.error().to_string();
  const std::string path = directory.data() + "/data.mdb";
  Rows rows;
  std::string before = read_file(path);
  int cuts = 0;
  for (int i = 1; i <= kCommits; ++i) {
    const Rows old_rows = rows;
    const Revision old_revision = (*opened)->current();
    std::vector<Op> ops;
    for (std::uint32_t n = random() % 4 + 1; n > 0; --n) {
      const std::string key = "k" + std::to_string(random() % 20 * 10 + n);
      if (rows.count(key) != 0 && random() % 3 == 0) {
        ops.push_back(erase(key));
        rows.erase(key);
      } else {
        rows[key] = std::string(random() % 6'000, static_cast<char>('a' + i % 26));
        ops.push_back(put(key, rows[key]));
      }
    }
    ASSERT_TRUE((*opened)->commit_wait(std::move(ops)));
    const std::string after = read_file(path);
    // Pages of a state may be used again two transactions later, never before.
    if (transaction_of(after) == transaction_of(before) + 1) {
      for (int n = 0; n < kCutsPerCommit; ++n, ++cuts) {
        expect_state(cut(before, after, random), old_revision, old_rows);
        if (::testing::Test::HasFailure()) {
          return;
        }
      }
      expect_state(after, (*opened)->current(), rows);
    }
    before = after;
  }
  EXPECT_GE(cuts, kCommits * kCutsPerCommit / 2) << "commits were not single transactions";
}

}  // namespace
}  // namespace kintsugi::store
