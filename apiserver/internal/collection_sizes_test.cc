#include "apiserver/internal/collection_sizes.h"

#include <gtest/gtest.h>

namespace kintsugi::apiserver::internal {
namespace {

store::Event came(store::Revision revision) {
  store::Event event;
  event.revision = event.created = revision;
  return event;
}
store::Event changed(store::Revision revision) {
  store::Event event = came(revision);
  event.previous_modified = 1;
  return event;
}
store::Event went(store::Revision revision) {
  store::Event event = changed(revision);
  event.type = store::EventType::kDelete;
  return event;
}

TEST(CollectionSizes, SE005_ASizeFollowsWhatComesAndGoes) {
  CollectionSizes sizes(0);
  EXPECT_EQ(sizes.at("a", 10), std::nullopt);
  const CollectionSizes::Count count = sizes.begin("a", 10);
  ASSERT_NE(count, nullptr);
  EXPECT_EQ(sizes.begin("a", 10), nullptr) << "one counts already";
  EXPECT_EQ(sizes.at("a", 10), std::nullopt);
  sizes.note("a", came(9));  // told late: it was counted
  sizes.note("a", came(11));
  sizes.note("a", changed(12));
  sizes.note("b", came(13));
  sizes.end("a", count, 5);
  EXPECT_EQ(sizes.at("a", 9), std::nullopt) << "it was counted later";
  EXPECT_EQ(sizes.at("a", 10), 5);
  EXPECT_EQ(sizes.at("a", 11), 6);
  EXPECT_EQ(sizes.at("a", 13), 6);
  sizes.note("a", went(14));
  sizes.note("a", went(15));
  EXPECT_EQ(sizes.at("a", 14), 5);
  EXPECT_EQ(sizes.at("a", 15), 4);
  EXPECT_EQ(sizes.at("b", 15), std::nullopt);
}

TEST(CollectionSizes, WhenMuchHasChangedSince_TheSizeOfBeforeIsForgotten) {
  CollectionSizes sizes(0);
  sizes.end("a", sizes.begin("a", 10), 5);
  const store::Revision last = 10 + CollectionSizes::kSteps;
  for (store::Revision revision = 11; revision <= last; ++revision) {
    sizes.note("a", came(revision));
  }
  EXPECT_EQ(sizes.at("a", 10), 5);
  sizes.note("a", went(last + 1));
  EXPECT_EQ(sizes.at("a", 10), std::nullopt);
  EXPECT_EQ(sizes.at("a", 11), 6);
  EXPECT_EQ(sizes.at("a", last), 5 + static_cast<std::int64_t>(CollectionSizes::kSteps));
  EXPECT_EQ(sizes.at("a", last + 1), 4 + static_cast<std::int64_t>(CollectionSizes::kSteps));
}

TEST(CollectionSizes, WhenChangesOfWhatWasCountedComeLater_TheyAreNotCountedTwice) {
  CollectionSizes sizes(0);
  sizes.end("a", sizes.begin("a", 10), 5);
  sizes.note("a", came(9));
  sizes.note("a", went(10));
  EXPECT_EQ(sizes.at("a", 10), 5);
}

TEST(CollectionSizes, WhenItIsSmall_ItsPlaceIsForAnother) {
  CollectionSizes sizes;
  sizes.end("a", sizes.begin("a", 10), CollectionSizes::kWorth - 1);
  EXPECT_FALSE(sizes.knows("a"));
  EXPECT_TRUE(sizes.is_empty());
  sizes.end("a", sizes.begin("a", 10), CollectionSizes::kWorth);
  EXPECT_TRUE(sizes.knows("a"));
}

TEST(CollectionSizes, WhenWhoCountsGoes_AnotherOneMay) {
  CollectionSizes sizes(0);
  CollectionSizes::Count first = sizes.begin("a", 10);
  first.reset();
  sizes.note("a", came(11));
  const CollectionSizes::Count second = sizes.begin("a", 12);
  ASSERT_NE(second, nullptr);
  sizes.end("a", first, 100);
  EXPECT_EQ(sizes.at("a", 12), std::nullopt);
  sizes.end("a", second, 6);
  EXPECT_EQ(sizes.at("a", 12), 6);
}

TEST(CollectionSizes, WhenManyAreCounted_TheNumberIsBounded) {
  CollectionSizes sizes(0);
  const std::size_t many = CollectionSizes::kMost * 2;
  std::size_t known = 0;
  for (std::size_t i = 0; i < many; ++i) {
    sizes.end(std::to_string(i), sizes.begin(std::to_string(i), 1), 1);
  }
  for (std::size_t i = 0; i < many; ++i) {
    known += sizes.at(std::to_string(i), 1) ? 1 : 0;
  }
  EXPECT_EQ(known, CollectionSizes::kMost);
}

}  // namespace
}  // namespace kintsugi::apiserver::internal
