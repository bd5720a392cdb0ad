#include "workers/messaging/pipeline/internal/entity_names.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace kintsugi::workers {
namespace {

TEST(EntityNames, WhatManyBeginWithIsKeptOnce) {
  EntityNames names;
  const EntityName a = names.put("ktg.root.al.abcdef"), b = names.put("ktg.root.al.ghijkl");
  const EntityName queue = names.put("c1.space/a.b/c"), bare = names.put("bare");
  EXPECT_EQ(names.prefixes(), 2U);
  EXPECT_EQ(a.prefix, b.prefix);
  EXPECT_EQ(queue.length, 5U) << "what tenants choose is behind the first slash";
  for (const auto& [name, text] : {std::pair(a, "ktg.root.al.abcdef"),
                                   {b, "ktg.root.al.ghijkl"},
                                   {queue, "c1.space/a.b/c"},
                                   {bare, "bare"}}) {
    EXPECT_EQ(names.text(name), text);
    EXPECT_TRUE(names.is(name, text));
    EXPECT_FALSE(names.is(name, std::string(text) + "x"));
    EXPECT_FALSE(names.is(name, "ktg.root.al.abcdeF"));
  }
  EXPECT_FALSE(names.is(names.put("c2.space/a.b/c"), "c1.space/a.b/c"));
  names.drop(a);
  EXPECT_EQ(names.text(b), "ktg.root.al.ghijkl");
  names.drop(b);
  EXPECT_EQ(names.prefixes(), 2U) << "c1 and c2";
}

TEST(EntityNames, WhenPrefixesAreTooMany_NamesStayWhole) {
  EntityNames names;
  std::vector<EntityName> all;
  for (int i = 0; i < 5'000; ++i) {
    all.push_back(names.put("space" + std::to_string(i) + "/q"));
  }
  EXPECT_EQ(names.prefixes(), 4'096U);
  for (int i = 0; i < 5'000; ++i) {
    ASSERT_TRUE(names.is(all[i], "space" + std::to_string(i) + "/q"));
  }
}

TEST(EntityNames, WhenNamesComeAndGo_EachIsAsItWasPut) {
  EntityNames names;
  std::vector<std::pair<EntityName, std::string>> all;
  std::mt19937 random(3);
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 3 != 0 || all.empty()) {
      std::string text = "s" + std::to_string(random() % 50) + "/";
      text.append(random() % 100 == 0 ? 40'000 : random() % 400,
                  static_cast<char>('a' + step % 26));
      all.emplace_back(names.put(text), text);
    } else {
      const std::size_t at = random() % all.size();
      ASSERT_EQ(names.text(all[at].first), all[at].second);
      names.drop(all[at].first);
      all[at] = all.back();
      all.pop_back();
    }
  }
  for (const auto& [name, text] : all) {
    ASSERT_TRUE(names.is(name, text));
  }
}

}  // namespace
}  // namespace kintsugi::workers
