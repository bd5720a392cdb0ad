#include "workers/messaging/pipeline/check_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "workers/messaging/pipeline/component_pipeline.h"
#include "workers/testing/scripted_component.h"

namespace kintsugi::workers {
namespace {

TEST(CheckTimes, MS_067_WhatIsWishedAtOnceIsApart) {
  CheckTimes times;
  const TimePoint now{std::chrono::hours(1)};
  std::vector<TimePoint> given;
  for (int i = 0; i < 20; ++i) {
    given.push_back(times.take(now + seconds(i % 3), now));
    EXPECT_GE(given.back(), now + seconds(i % 3));
  }
  std::sort(given.begin(), given.end());
  for (std::size_t i = 1; i < given.size(); ++i) {
    EXPECT_GE(given[i] - given[i - 1], CheckTimes::kApart);
  }
  EXPECT_LE(given.back(), now + 20 * CheckTimes::kApart);  // gaps are used
}

TEST(CheckTimes, MS_067_AFreeTimeIsTakenAsItIs) {
  CheckTimes times;
  const TimePoint now{std::chrono::hours(1)};
  EXPECT_EQ(times.take(now + seconds(10), now), now + seconds(10));
  EXPECT_EQ(times.take(now + seconds(5), now), now + seconds(5));
  EXPECT_EQ(times.take(now + seconds(7), now), now + seconds(7));
  EXPECT_EQ(times.take(now + milliseconds(9500), now), now + seconds(10) + CheckTimes::kApart);
  // What is over counts no more.
  const TimePoint later = now + seconds(20);
  EXPECT_EQ(times.take(later, later), later);
}

TEST(CheckTimes, MS_067_TwentyComponentsAreNotCheckedTogether) {
  CheckTimes times;
  ComponentPipeline::Params params;
  params.sweep = seconds(40);
  TimePoint now{};
  std::vector<std::unique_ptr<PipelineBench>> routers;
  for (std::uint64_t i = 0; i < 20; ++i) {
    params.seed = i;
    params.check_times = &times;
    routers.push_back(std::make_unique<PipelineBench>(ComponentKind::kRouter, params));
    routers.back()->ready();
    routers.back()->settle();
    routers.back()->component.counts.clear();
    routers.back()->component.log.clear();
    now = routers.back()->now;
  }
  std::vector<TimePoint> begun;
  const std::string table = "QUERY " + std::string(router_type(EntityKind::kVhost));
  std::vector<std::size_t> seen(routers.size());
  for (int step = 0; step < 1200; ++step) {
    now += milliseconds(100);
    for (std::size_t i = 0; i < routers.size(); ++i) {
      PipelineBench& one = *routers[i];
      one.run(milliseconds(100));
      const auto count = static_cast<std::size_t>(
          std::count(one.component.log.begin(), one.component.log.end(), table));
      if (count > seen[i]) {
        seen[i] = count;
        begun.push_back(now);
      }
    }
  }
  ASSERT_GE(begun.size(), 40U);
  for (std::size_t i = 1; i < begun.size(); ++i) {
    EXPECT_GE(begun[i] - begun[i - 1], seconds(1));
  }
}

TEST(CheckTimes, MD_5_ByReconnectEverythingIsLookedAtByAnotherConnection) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    ComponentPipeline::Params params;
    params.resync_by_reconnect = true;
    params.seed = seed;
    PipelineBench router(ComponentKind::kRouter, params);
    router.ready();
    for (int i = 0; i < 10; ++i) {
      router.want(static_cast<ObjectId>(i), router_queue(i));
    }
    router.run(seconds(1809));
    EXPECT_FALSE(router.pipeline.wants_reconnect());
    router.run(seconds(21));
    EXPECT_TRUE(router.pipeline.wants_reconnect());
    // Somebody has changed an attribute: no counter tells.
    const ScriptedComponent::Key link{std::string(router_type(EntityKind::kAutoLink)),
                                      router_queue(3)[1].name};
    ASSERT_EQ(router.component.entities.count(link), 1U);
    router.component.entities[link]["externalAddress"] = "elsewhere";
    router.component.counts.clear();
    router.lost();
    router.ready();
    EXPECT_FALSE(router.pipeline.wants_reconnect());
    router.run(seconds(5));
    EXPECT_EQ(router.component.entities[link].text({"externalAddress"}), "space-a/q3");
    ASSERT_EQ(router.repairs.size(), 1U);
    EXPECT_EQ(router.repairs[0].name, router_queue(3)[1].name);
    // A connection that is lost for another reason is looked at less.
    router.component.counts.clear();
    router.lost();
    router.ready();
    router.run(seconds(5));
    EXPECT_EQ(router.component.counts["CREATE"], 0);
  }
}

TEST(CheckTimes, MD_5_OfABrokerAsWell) {
  ComponentPipeline::Params params;
  params.resync_by_reconnect = true;
  PipelineBench broker(ComponentKind::kBroker, params);
  broker.ready();
  broker.want(1, broker_queue(1));
  broker.run(seconds(1830));
  EXPECT_TRUE(broker.pipeline.wants_reconnect());
  broker.lost();
  broker.component.counts.clear();
  broker.ready();
  broker.run(seconds(5));
  EXPECT_FALSE(broker.pipeline.wants_reconnect());
  EXPECT_EQ(broker.component.counts["listQueues"], 1);
}

}  // namespace
}  // namespace kintsugi::workers
