#include "shards/internal/key_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace kintsugi::shards {
namespace {

TEST(KeyTable, WhenRevisionRepeats_SaysNothingChanged) {
  KeyTable table;
  EXPECT_TRUE(table.put("a|/x", 1));
  EXPECT_FALSE(table.put("a|/x", 1));
  EXPECT_TRUE(table.put("a|/x", 2));
  EXPECT_EQ(table.size(), 1U);
  EXPECT_TRUE(table.erase("a|/x"));
  EXPECT_FALSE(table.erase("a|/x"));
  EXPECT_TRUE(table.put("a|/x", 2));
}

TEST(KeyTable, WhenListEnds_ReportsExactlyWhatWasNotSeen) {
  KeyTable table;
  for (const char* key : {"a", "b", "c", "d"}) {
    table.put(key, 1);
  }
  table.begin_list();
  table.put("b", 1);
  table.put("d", 2);
  table.put("e", 1);
  std::set<std::string> gone;
  table.end_list([&](std::string_view key) { gone.emplace(key); });
  EXPECT_EQ(gone, (std::set<std::string>{"a", "c"}));
  EXPECT_EQ(table.size(), 3U);
}

TEST(KeyTable, WhenUsedAtRandom_EqualsAMap) {
  std::mt19937_64 random(7);
  KeyTable table;
  std::map<std::string, std::uint64_t> model;
  for (int i = 0; i < 200'000; ++i) {
    const std::string key = "cluster-" + std::to_string(random() % 5'000) + "|/object";
    if (random() % 3 == 0) {
      EXPECT_EQ(table.erase(key), model.erase(key) == 1);
    } else {
      const std::uint64_t revision = random() % 4;
      const auto at = model.find(key);
      const bool changed = at == model.end() || at->second != revision;
      model[key] = revision;
      ASSERT_EQ(table.put(key, revision), changed);
    }
    ASSERT_EQ(table.size(), model.size());
  }
  table.begin_list();
  std::size_t gone = 0;
  table.end_list([&](std::string_view key) { gone += model.erase(std::string(key)); });
  EXPECT_EQ(table.size(), 0U);
  EXPECT_TRUE(model.empty());
  EXPECT_GT(gone, 0U);
}

TEST(KeyTable, WhenItHoldsAHundredThousandKeys_NeedsLessThanEightyBytesEach) {
  KeyTable table;
  for (int i = 0; i < 100'000; ++i) {
    table.put("2bqfj6xlthg" + std::to_string(10'000 + i) + "|/cluster",
              static_cast<std::uint64_t>(i));
  }
  EXPECT_LT(table.bytes() / 100'000, 80U);
}

}  // namespace
}  // namespace kintsugi::shards
