#include "workers/runtime/queue/internal/entry_table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>

#include "workers/runtime/queue/internal/seeded_random.h"

namespace kintsugi::workers {
namespace {

using Key = std::tuple<std::string, std::string, std::string>;

QueueKey view(const Key& key) { return {std::get<0>(key), std::get<1>(key), std::get<2>(key)}; }

TEST(EntryTable, RT45_RandomKeysAreFoundAsInAMap) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    EntryTable table(random.next());
    std::map<Key, EntryTable::Id> expected;
    const std::uint64_t names = seed % 2 == 0 ? 200 : 20'000;
    for (int i = 0; i < 30'000; ++i) {
      const bool grows = (i / 7'500) % 2 == 0;  // grows, shrinks, grows, shrinks
      const Key key{
          "c" + std::to_string(random.next() % 30), std::string(random.next() % 40, 'n'),
          std::string(random.next() % 3 * 90, 'x') + std::to_string(random.next() % names)};
      if (expected.empty() || random.next() % 10 < (grows ? 8U : 2U)) {
        const auto [id, is_new] = table.find_or_make(view(key));
        const auto [at, inserted] = expected.emplace(key, id);
        ASSERT_EQ(is_new, inserted);
        ASSERT_EQ(at->second, id);
      } else {
        auto at = expected.lower_bound(key);
        at = at == expected.end() ? expected.begin() : at;
        ASSERT_EQ(table.key(at->second), view(at->first));
        ASSERT_EQ(table.find(view(at->first)), at->second);
        table.erase(at->second);
        ASSERT_EQ(table.find(view(at->first)), EntryTable::kNone);
        expected.erase(at);
      }
      ASSERT_EQ(table.size(), expected.size());
    }
    for (const auto& [key, id] : expected) {
      ASSERT_EQ(table.find(view(key)), id);
      ASSERT_EQ(table.key(id), view(key));
    }
    while (!expected.empty()) {
      table.erase(expected.begin()->second);
      expected.erase(expected.begin());
    }
    EXPECT_EQ(table.size(), 0U);
  }
}

TEST(EntryTable, WhenEmptyAgain_MemoryIsGivenBackOrUsedAgain) {
  EntryTable table(1);
  std::size_t once = 0;
  for (int round = 0; round < 5; ++round) {
    const auto [id, is_new] = table.find_or_make({"c", "n", "x"});
    EXPECT_TRUE(is_new);
    table.erase(id);
    once = round == 0 ? table.memory_bytes() : once;
  }
  EXPECT_EQ(table.memory_bytes(), once);
  EXPECT_EQ(table.find({"c", "n", "x"}), EntryTable::kNone);
  EXPECT_EQ(EntryTable(1).find({"c", "n", "x"}), EntryTable::kNone);
}

}  // namespace
}  // namespace kintsugi::workers
