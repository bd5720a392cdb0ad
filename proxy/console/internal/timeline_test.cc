#include "proxy/console/internal/timeline.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

TimelineSample sample(std::uint64_t slow, const std::string& state) {
  TimelineSample out;
  out.counts[{"eviction", "", "slow"}] = slow;
  out.states[{"shard", "a"}] = state;
  return out;
}

std::string told(const Timeline& timeline) {
  std::string out;
  for (const krm::Json& row : timeline.rows()) {
    out += std::string(row.text({"kind"})) + " " + std::string(row.text({"shard"})) + " " +
           std::string(row.text({"reason"})) + " " +
           std::to_string(row.find("count")->as_integer()) + "\n";
  }
  return out;
}

TEST(Timeline, OP_710_TheFirstSampleIsWhereItBegins) {
  Timeline timeline;
  timeline.take(sample(7, "up"), 1'000'000);
  EXPECT_EQ(told(timeline), "");
  EXPECT_TRUE(timeline.last("eviction").is_null());
}

TEST(Timeline, OP_710_WhatGrowsAndWhatChangesIsTold_TheLatestFirst) {
  Timeline timeline;
  timeline.take(sample(7, "up"), 1'000'000);
  timeline.take(sample(9, "up"), 2'000'000);
  timeline.take(sample(9, "up"), 3'000'000);
  timeline.take_shards({{{"shard", "a"}, "away"}}, 4'000'000);
  EXPECT_EQ(told(timeline), "shard a away 1\neviction  slow 2\n");
  EXPECT_EQ(timeline.last("eviction").text({"at"}), "1970-01-01T00:00:02.000000Z");
  const auto version = timeline.version();
  timeline.take_shards({}, 5'000'000);
  EXPECT_EQ(told(timeline).substr(0, 15), "shard a gone 1\n");
  EXPECT_NE(timeline.version(), version);
}

TEST(Timeline, OP_710_OnlyTheLatestAreKept) {
  Timeline timeline;
  timeline.take(sample(0, "up"), 0);
  for (std::uint64_t i = 1; i <= Timeline::kMost + 5; ++i) {
    timeline.take(sample(i, "up"), static_cast<std::int64_t>(i));
  }
  const ViewRows rows = timeline.rows();
  EXPECT_EQ(rows.size(), Timeline::kMost);
  EXPECT_EQ(rows.back().text({"id"}), "000000000006");
  EXPECT_GT(rows.front().text({"id"}), rows.back().text({"id"}));
}

}  // namespace
}  // namespace kintsugi::proxy
