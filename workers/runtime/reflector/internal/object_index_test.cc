#include "workers/runtime/reflector/internal/object_index.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>

namespace kintsugi::workers {
namespace {

using Id = ObjectIndex::Id;

IndexValues values(std::initializer_list<std::string_view> all) {
  IndexValues result;
  for (const std::string_view one : all) {
    result.add(one);
  }
  return result;
}
std::multiset<Id> found(const ObjectIndex& index, std::string_view value) {
  std::multiset<Id> all;
  index.each(value, [&](Id id) { all.insert(id); });
  return all;
}
using Ids = std::multiset<Id>;

TEST(ObjectIndex, RT35_AnObjectIsFoundByEachOfItsValues) {
  ObjectIndex index;
  index.set(0, values({"a", "b", "a", ""}));
  index.set(1, values({"b"}));
  index.set(ObjectIndex::kOther | 0, values({"b"}));
  EXPECT_EQ(found(index, "a"), (Ids{0}));
  EXPECT_EQ(found(index, "b"), (Ids{0, 1, ObjectIndex::kOther}));
  EXPECT_EQ(found(index, ""), (Ids{0}));
  EXPECT_EQ(found(index, "c"), Ids{});
  index.set(0, values({"c"}));
  EXPECT_EQ(found(index, "a"), Ids{});
  EXPECT_EQ(found(index, "b"), (Ids{1, ObjectIndex::kOther}));
  EXPECT_EQ(found(index, "c"), (Ids{0}));
  EXPECT_EQ(index.values(), 2U);
  index.remove(0);
  index.remove(1);
  index.remove(7);
  index.remove(ObjectIndex::kOther);
  EXPECT_EQ(index.values(), 0U);
}

TEST(ObjectIndex, RT35_WhenUsedAtRandom_EqualsAMap) {
  const char* full = std::getenv("KINTSUGI_FULL_LOAD");
  const std::uint64_t seeds = full != nullptr ? 200 : 5;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    ObjectIndex index;
    std::map<Id, std::set<std::string>> model;
    for (int i = 0; i < 20'000; ++i) {
      const Id id = static_cast<Id>(random() % 200) | (random() % 4 == 0 ? ObjectIndex::kOther : 0);
      if (random() % 3 == 0) {
        index.remove(id);
        model.erase(id);
        continue;
      }
      IndexValues all;
      std::set<std::string> texts;
      for (std::uint64_t n = random() % 4; n > 0; --n) {
        const std::string text = "v" + std::to_string(random() % 50);
        all.add(text);
        texts.insert(text);
      }
      index.set(id, all);
      model[id] = texts;
    }
    std::set<std::string> live;
    for (int v = 0; v < 50; ++v) {
      const std::string text = "v" + std::to_string(v);
      Ids expected;
      for (const auto& [id, texts] : model) {
        if (texts.count(text) != 0) {
          expected.insert(id);
          live.insert(text);
        }
      }
      ASSERT_EQ(found(index, text), expected);
    }
    ASSERT_EQ(index.values(), live.size());
  }
}

}  // namespace
}  // namespace kintsugi::workers
