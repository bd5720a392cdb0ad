#include "workers/messaging/model/by_number.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace kintsugi::workers {
namespace {

TEST(ByNumber, WhenRecordsComeAndGo_ItIsAsAMap) {
  ByNumber<int> table;
  std::map<ObjectId, int> model;
  std::mt19937 random(7);
  for (int step = 1; step < 20'000; ++step) {
    const auto number = static_cast<ObjectId>(random() % 1'500);
    if (random() % 2 == 0) {
      table[number] = model[number] = step;
    } else {
      table.erase(number);
      model.erase(number);
    }
    ASSERT_EQ(table.size(), model.size());
    const int* const found = table.find(number);
    ASSERT_EQ(found != nullptr, model.contains(number));
    ASSERT_TRUE(found == nullptr || *found == model[number]);
  }
  long sum = 0, wanted = 0;
  table.each([&sum](int value) { sum += value; });
  for (const auto& [number, value] : model) {
    wanted += value;
  }
  EXPECT_EQ(sum, wanted);
  EXPECT_FALSE(table.all_of([](int value) { return value == 1; }));
}

TEST(ByNumber, WhenARecordIsMadeAgain_NothingIsLeftOfTheOneBefore) {
  ByNumber<int> table;
  table[300] = 5;
  table[301] = 6;
  table.erase(300);
  EXPECT_EQ(table.find(300), nullptr);
  EXPECT_EQ(table[300], 0);
  EXPECT_EQ(table.at(301), 6);
  EXPECT_EQ(table.find(100'000), nullptr);
}

}  // namespace
}  // namespace kintsugi::workers
