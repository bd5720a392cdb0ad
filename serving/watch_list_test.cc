#include "serving/watch_list.h"

#include <gtest/gtest.h>

#include <string>

namespace kintsugi::serving {
namespace {

TimePoint at(int second) { return TimePoint(seconds(second)); }

void offer(WatchList& list, std::size_t queue, int since) {
  list.offer(queue, at(since), [=](WatchRow& row) { row.user = "u" + std::to_string(since); });
}

TEST(WatchListTest, R32_WhoIsFarthestBehindComesFirstThenTheOldest) {
  WatchList list;
  offer(list, 0, 30);
  offer(list, 700, 40);
  offer(list, 0, 10);
  offer(list, 900, 50);
  std::string order;
  for (const WatchRow& row : list.rows(at(60))) {
    order += row.user + " " + std::to_string(row.queue) + " " + std::to_string(row.age) + "; ";
  }
  EXPECT_EQ(order, "u50 900 10; u40 700 20; u10 0 50; u30 0 30; ");
  EXPECT_EQ(list.open(), 4U);
}

TEST(WatchListTest, R32_OfManyTheFirstAreKeptAndAllAreCounted) {
  constexpr int kMany = static_cast<int>(WatchList::kMost) + 200;
  WatchList list;
  for (int i = 0; i < kMany; ++i) {
    offer(list, 0, i * 3 % kMany);
  }
  offer(list, 1, kMany);
  const auto rows = list.rows(at(kMany));
  ASSERT_EQ(rows.size(), WatchList::kMost);
  EXPECT_EQ(list.open(), static_cast<std::size_t>(kMany) + 1);
  EXPECT_EQ(rows.front().user, "u" + std::to_string(kMany));
  for (std::size_t i = 1; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].user, "u" + std::to_string(i - 1));
  }
}

TEST(WatchListTest, R32_ThePathIsCutAndNamesTheCluster) {
  WatchRow row;
  name_target(row, "/clusters/c1/api/v1/pods?watch=1&x=/clusters/no/");
  EXPECT_EQ(row.cluster, "c1");
  EXPECT_EQ(row.path, "/clusters/c1/api/v1/pods?watch=1&x=/clusters/no/");
  row = {};
  name_target(row, "/services/apiexport/c2/e/clusters/*/api/v1/pods");
  EXPECT_EQ(row.cluster, "*");
  row = {};
  name_target(row, "/api/v1/pods?x=/clusters/no/" + std::string(9'000, 'a'));
  EXPECT_EQ(row.cluster, "");
  EXPECT_EQ(row.path.size(), WatchList::kMostPath);
}

}  // namespace
}  // namespace kintsugi::serving
