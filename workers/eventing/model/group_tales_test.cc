#include "workers/eventing/model/group_tales.h"

#include <gtest/gtest.h>

#include <string>

#include "workers/eventing/model/group_report.h"
#include "workers/eventing/model/placeable.h"

namespace kintsugi::workers {
namespace {

using krm::Json;
using Tales = std::vector<Tale>;

GroupReport well() {
  GroupReport report;
  report.observed_generation = 1;
  report.readiness = {true, ReadyReason::kReady, "", 2, {}, {}};
  return report;
}

GroupReport binding() {
  GroupReport report = well();
  report.readiness.ready = false;
  report.readiness.reason = ReadyReason::kBindInProgress;
  return report;
}

Json status_by(const GroupReport& report, std::vector<Placed> placed = {{"p0", 1}, {"p1", 2}}) {
  Json status = Json::object();
  write_status_placeable(status, {12, std::move(placed)});
  set_group_conditions(status, report, nullptr, "2026-11-28T19:00:00Z");
  return status;
}

TEST(GroupTales, RT83_AGroupThatIsPlacedIsToldOnce) {
  const Json none = Json::object();
  EXPECT_EQ(group_tales(none, status_by(binding())),
            (Tales{{false, "Scheduled", "placed: p0=1,p1=2"}}));
  EXPECT_EQ(group_tales(status_by(binding()), status_by(well())), Tales{});
  EXPECT_EQ(group_tales(status_by(well()), status_by(binding())), Tales{});
  EXPECT_EQ(group_tales(none, status_by(well(), {})),
            (Tales{{false, "Scheduled", "nothing is to be placed"}}));
}

TEST(GroupTales, RT83_FewerThanWantedAreAWarning_ItsEndIsTold) {
  GroupReport few = binding();
  few.readiness.reason = ReadyReason::kPartial;
  few.scheduling = GroupScheduling::kNotEnoughPods;
  few.scheduling_message = "5 of 15 vreplicas have no place: no pod has room for one more";
  EXPECT_EQ(group_tales(Json::object(), status_by(few)),
            (Tales{{true, "NotEnoughPods", few.scheduling_message}}));
  GroupReport fewer = few;
  fewer.scheduling_message = "6 of 15 vreplicas have no place: no pod has room for one more";
  EXPECT_EQ(group_tales(status_by(few), status_by(fewer)), Tales{});
  EXPECT_EQ(group_tales(status_by(few), status_by(well())),
            (Tales{{false, "Scheduled", "placed: p0=1,p1=2"}}));
  GroupReport capped = well();
  capped.scheduling = GroupScheduling::kCappedByPartitions;
  EXPECT_EQ(group_tales(status_by(well()), status_by(capped)),
            (Tales{{false, "CappedByPartitions", "placed: p0=1,p1=2"}}));
}

TEST(GroupTales, KN_T061_ATopicThatIsMissingIsToldAndThatItIsThere) {
  GroupReport missing = binding();
  missing.scheduling = GroupScheduling::kSchedule;
  missing.scheduling_message = "it is placed when what the other conditions name is right";
  missing.trouble = GroupTrouble::kTopicMissing;
  missing.trouble_message = "topic orders does not exist";
  const Json before = status_by(missing, {});
  EXPECT_EQ(group_tales(Json::object(), before),
            (Tales{{true, "TopicMissing", "topic orders does not exist"}}));
  EXPECT_EQ(group_tales(before, before), Tales{});
  GroupReport other = missing;
  other.trouble = GroupTrouble::kKafkaClient;
  other.trouble_message = "no broker answers";
  EXPECT_EQ(group_tales(before, status_by(other, {})),
            (Tales{{true, "KafkaClient", "no broker answers"}}));
  EXPECT_EQ(group_tales(before, status_by(well())),
            (Tales{{false, "Scheduled", "placed: p0=1,p1=2"},
                   {false, "Recovered", "TopicMissing is over"}}));
  EXPECT_EQ(group_tales(before, status_by(binding())), group_tales(before, status_by(well())));
}

TEST(GroupTales, KD_3_APodThatIsGoneForLongIsTold) {
  GroupReport gone = binding();
  gone.readiness.reason = ReadyReason::kPodMissing;
  gone.readiness.message = "1 of 2 pods have the placement";
  EXPECT_EQ(group_tales(status_by(well()), status_by(gone)),
            (Tales{{true, "PodMissing", "1 of 2 pods have the placement"}}));
}

}  // namespace
}  // namespace kintsugi::workers
