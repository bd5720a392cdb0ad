#include "workers/runtime/journal/start_compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>

namespace kintsugi::workers {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string key_of(std::string_view cluster, std::string_view name) {
  std::string key;
  EXPECT_TRUE(append_journal_key(key, {cluster, "ns", name}));
  return key;
}

TEST(StartCompare, RT76_EqualIsNothingDifferentIsQueuedMissingIsGone) {
  const std::string a = key_of("c1", "a"), b = key_of("c1", "b"), c = key_of("c2", "a");
  const std::vector<JournalEntry> rows = {{a, "1"}, {b, "2"}, {c, "3"}};
  const std::vector<ListedObject> listed = {
      {{"c2", "ns", "a"}, "03"}, {{"c1", "ns", "a"}, "1"}, {{"c1", "ns", "new"}, "9"}};
  const StartComparison result = compare_at_start(rows, listed);
  EXPECT_EQ(result.unchanged, 1U);
  EXPECT_THAT(result.queue, ElementsAre(2, 0));  // "03" is not "3": never read as a number
  EXPECT_THAT(result.gone, ElementsAre(1));
  EXPECT_THAT(result.unfit, IsEmpty());
}

TEST(StartCompare, RT76_AnEmptyVersionEqualsNothing) {
  const std::string a = key_of("c", "a");
  const StartComparison result = compare_at_start({{a, ""}}, {{{"c", "ns", "a"}, ""}});
  EXPECT_THAT(result.queue, ElementsAre(0));
  EXPECT_THAT(result.gone, IsEmpty());
}

TEST(StartCompare, RT76_EmptySidesAndDoubleEntries) {
  const std::string a = key_of("c", "a");
  EXPECT_THAT(compare_at_start({{a, "1"}}, {}).gone, ElementsAre(0));
  EXPECT_THAT(compare_at_start({}, {{{"c", "ns", "a"}, "1"}}).queue, ElementsAre(0));
  const StartComparison twice =
      compare_at_start({{a, "2"}}, {{{"c", "ns", "a"}, "1"}, {{"c", "ns", "a"}, "2"}});
  EXPECT_EQ(twice.unchanged, 1U);
  EXPECT_THAT(twice.queue, IsEmpty());
}

TEST(StartCompare, RT76_NamesThatNoKeyCanHoldAreToldApart) {
  const std::string long_name(254, 'n');
  const StartComparison result =
      compare_at_start({}, {{{"c", "ns", long_name}, "1"}, {{"c", "ns", "a"}, "1"}});
  EXPECT_THAT(result.unfit, ElementsAre(0));
  EXPECT_THAT(result.queue, ElementsAre(1));
}

TEST(StartCompare, RT76_AgreesWithMapsForRandomSides) {
  std::random_device device;
  const std::uint32_t seed = device();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const int rounds = std::getenv("KINTSUGI_FULL_LOAD") != nullptr ? 20'000 : 500;
  for (int round = 0; round < rounds; ++round) {
    std::map<std::string, std::string> journal;
    std::map<std::string, std::pair<std::string, std::uint32_t>> api;
    std::vector<std::pair<std::string, std::string>> objects;
    for (std::size_t i = random() % 12; i > 0; --i) {
      journal[std::string(1, static_cast<char>('a' + random() % 10))] =
          std::to_string(random() % 3);
    }
    for (std::size_t i = random() % 12; i > 0; --i) {
      objects.emplace_back(std::string(1, static_cast<char>('a' + random() % 10)),
                           std::to_string(random() % 3));
    }
    std::vector<std::string> keys;
    for (const auto& [name, rv] : journal) {
      keys.push_back(key_of("c", name));
    }
    std::vector<JournalEntry> rows;
    for (const auto& [name, rv] : journal) {
      rows.push_back({keys[rows.size()], rv});
    }
    std::vector<ListedObject> listed;
    for (const auto& [name, rv] : objects) {
      api[name] = {rv, static_cast<std::uint32_t>(listed.size())};
      listed.push_back({{"c", "ns", name}, rv});
    }
    std::vector<std::uint32_t> queue, gone;
    std::size_t unchanged = 0;
    for (const auto& [name, entry] : api) {
      const auto row = journal.find(name);
      if (row != journal.end() && row->second == entry.first) {
        ++unchanged;
      } else {
        queue.push_back(entry.second);
      }
    }
    std::uint32_t index = 0;
    for (const auto& [name, rv] : journal) {
      if (!api.contains(name)) {
        gone.push_back(index);
      }
      ++index;
    }
    const StartComparison result = compare_at_start(rows, listed);
    ASSERT_EQ(result.unchanged, unchanged);
    ASSERT_EQ(result.queue, queue);
    ASSERT_EQ(result.gone, gone);
  }
}

}  // namespace
}  // namespace kintsugi::workers
