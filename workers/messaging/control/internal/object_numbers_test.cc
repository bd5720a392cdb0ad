#include "workers/messaging/control/internal/object_numbers.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace kintsugi::workers {
namespace {

ObjectRefKey address(std::string name, std::string ns = "default") {
  return {MessagingKind::kAddress, {"root", std::move(ns), std::move(name)}};
}

TEST(ObjectNumbers, KindClusterNamespaceAndNameTellObjectsApart) {
  ObjectNumbers numbers(1);
  EXPECT_FALSE(numbers.find(address("a")));
  const ObjectId one = numbers.ensure(address("a"));
  EXPECT_EQ(numbers.ensure(address("a")), one);
  ObjectRefKey other = address("a");
  other.kind = MessagingKind::kMessagingAddress;
  EXPECT_NE(numbers.ensure(other), one);
  EXPECT_NE(numbers.ensure(address("a", "more")), one);
  EXPECT_EQ(numbers.size(), 3U);
  const ObjectRefKey back = numbers.object(numbers.ensure(other));
  EXPECT_EQ(text_of(back), text_of(other));
  EXPECT_TRUE(numbers.object(99).key.name.empty());
  EXPECT_FALSE(numbers.is_used(99));
}

TEST(ObjectNumbers, WhenObjectsComeAndGo_NumbersAreAsAMapHasThem) {
  ObjectNumbers numbers(2);
  std::map<std::string, ObjectId> model;
  std::mt19937 random(3);
  for (int step = 0; step < 20'000; ++step) {
    const ObjectRefKey key =
        address("n" + std::to_string(random() % 300), "ns" + std::to_string(random() % 4));
    const auto known = model.find(text_of(key));
    const std::optional<ObjectId> found = numbers.find(key);
    ASSERT_EQ(found.has_value(), known != model.end());
    if (known == model.end()) {
      const ObjectId number = numbers.ensure(key);
      for (const auto& [text, other] : model) {
        ASSERT_NE(number, other);
      }
      model.emplace(text_of(key), number);
    } else {
      ASSERT_EQ(*found, known->second);
      ASSERT_EQ(text_of(numbers.object(*found)), known->first);
      if (random() % 2 == 0) {
        numbers.drop(*found);
        model.erase(known);
      }
    }
    ASSERT_EQ(numbers.size(), model.size());
  }
  while (!model.empty()) {
    numbers.drop(model.begin()->second);
    model.erase(model.begin());
  }
  EXPECT_LE(numbers.end(), 1'200U);
  EXPECT_FALSE(numbers.is_used(0));
}

}  // namespace
}  // namespace kintsugi::workers
