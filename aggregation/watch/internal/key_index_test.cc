#include "aggregation/watch/internal/key_index.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace kintsugi::aggregation {
namespace {

std::string object(std::string_view name, std::string_view uid, int revision,
                   std::string_view cluster = "c1") {
  return R"({"metadata":{"annotations":{"kcp.io/cluster":")" + std::string(cluster) +
         R"("},"labels":{"a":"b"},"name":")" + std::string(name) +
         R"(","namespace":"t","ownerReferences":[{"uid":"o"}],"resourceVersion":")" +
         std::to_string(revision) + R"(","uid":")" + std::string(uid) + R"("}})";
}

using Change = KeyIndex::Change;

struct Listed {
  KeyIndex index;
  Change meet(const std::string& text) {
    const auto facts = object_facts(text);
    const Change change = index.meet(*facts);
    index.put(*facts, "kept of " + std::string(facts->name));
    return change;
  }
};

TEST(KeyIndex, WhenEverythingIsListedAgain_T61_TellsWhatIsDifferent) {
  Listed all;
  for (const char* name : {"a", "b", "c", "d"}) {
    EXPECT_EQ(all.meet(object(name, name, 1)), Change::kAdded);
  }
  all.index.begin_sweep();
  EXPECT_EQ(all.meet(object("a", "a", 1)), Change::kNone);
  EXPECT_EQ(all.meet(object("b", "b", 5)), Change::kModified);
  EXPECT_EQ(all.meet(object("c", "other", 6)), Change::kReplaced);
  EXPECT_EQ(all.meet(object("e", "e", 7)), Change::kAdded);
  std::map<std::string, std::string> gone;
  all.index.sweep([&](const ObjectFacts& facts, const KeyIndex::Entry& entry) {
    EXPECT_EQ(facts.cluster, "c1");
    EXPECT_EQ(facts.ns, "t");
    EXPECT_EQ(facts.uid, "d");
    gone[std::string(facts.name)] = entry.kept;
  });
  EXPECT_EQ(gone, (std::map<std::string, std::string>{{"d", "kept of d"}}));
  EXPECT_EQ(all.index.size(), 4U);
}

TEST(KeyIndex, WhenObjectsGo_ItsBytesGoToo) {
  KeyIndex index;
  const std::string text = object("a", "1", 1);
  const std::string elsewhere = object("a", "2", 1, "c2");
  const std::string hidden = object("a", "3", 1, "system:admin");
  index.put(*object_facts(text), "k");
  const std::size_t one = index.bytes();
  EXPECT_LT(one, 400U);
  index.put(*object_facts(text), "k");
  index.put(*object_facts(hidden), "k");
  EXPECT_EQ(index.bytes(), one);
  index.put(*object_facts(elsewhere), "k");
  EXPECT_EQ(index.size(), 2U);
  index.erase(*object_facts(text));
  int left = 0;
  index.drain([&](const ObjectFacts&, const KeyIndex::Entry&) { ++left; });
  EXPECT_EQ(left, 1);
  EXPECT_EQ(index.bytes(), 0U);
}

TEST(KeyNames, WhenTwoServersHaveAName_T76_TellsEachObjectOnce) {
  int collisions = 0;
  KeyNames names([&collisions](std::size_t slot) {
    EXPECT_EQ(slot, 1U);  // whose object came later
    ++collisions;
  });
  KeyIndex one(names, 0);
  KeyIndex other(names, 1);
  const auto put = [](KeyIndex& index, const std::string& text) {
    index.put(*object_facts(text), "");
  };
  put(one, object("x", "u1", 1, "a"));
  put(one, object("y", "u2", 1, "a"));
  EXPECT_EQ(collisions, 0);
  put(other, object("x", "u3", 1, "b"));
  EXPECT_EQ(collisions, 1);
  put(other, object("x", "u3", 2, "b"));  // it was counted
  put(other, object("y", "u2", 1, "b"));  // the same object behind two names of a server
  EXPECT_EQ(collisions, 1);
  one.erase(*object_facts(object("x", "u1", 1, "a")));
  put(one, object("z", "u4", 3, "a"));
  put(other, object("z", "u5", 3, "b"));
  EXPECT_EQ(collisions, 2);
  EXPECT_GT(names.bytes(), 0U);
  names.clear();
  EXPECT_EQ(names.bytes(), 0U);
}

TEST(KeyIndex, WhenFilledByAList_T61_WhatCameMeanwhileIsNewer) {
  KeyIndex index;
  const auto facts = [](const std::string& text) { return *object_facts(text); };
  const std::string changed = object("changed", "1", 9);
  const std::string created = object("created", "2", 10);
  const std::string erased = object("erased", "3", 11);
  const std::string again = object("again", "4", 12);
  index.begin_fill();
  index.put(facts(changed), "new");
  index.put(facts(created), "new");
  index.erase(facts(erased));
  index.erase(facts(again));
  index.put(facts(again), "new");
  const std::size_t bytes = index.bytes();
  for (const char* name : {"changed", "erased", "again", "still"}) {
    const std::string listed = object(name, "0", 5);
    index.fill(facts(listed), "old");
  }
  EXPECT_TRUE(index.filling());
  EXPECT_GT(bytes, 0U);
  index.end_fill();
  EXPECT_FALSE(index.filling());
  EXPECT_EQ(index.size(), 4U);
  EXPECT_EQ(index.find(facts(changed))->revision, 9U);
  EXPECT_EQ(index.find(facts(again))->revision, 12U);
  const std::string still = object("still", "0", 5);
  EXPECT_EQ(index.find(facts(still))->kept, "old");
  EXPECT_EQ(index.find(facts(erased)), nullptr);
  index.drain([](const ObjectFacts&, const KeyIndex::Entry&) {});
  EXPECT_EQ(index.bytes(), 0U);
}

}  // namespace
}  // namespace kintsugi::aggregation
