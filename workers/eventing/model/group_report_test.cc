#include "workers/eventing/model/group_report.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::string_view kReportTime = "2026-11-28T19:00:00Z";

GroupReport good() {
  GroupReport report;
  report.observed_generation = 3;
  report.readiness = {true, ReadyReason::kReady, "2 of 2 pods have the placement", 2, {}, {}};
  return report;
}

std::string condition_said(const GroupReport& report, std::string_view type, Json status = Json()) {
  set_group_conditions(status, report, nullptr, kReportTime);
  const Json* const one = find_condition(status, type);
  return one == nullptr
             ? "none"
             : std::string(one->text({"status"})) + "/" + std::string(one->text({"reason"}));
}

TEST(GroupReport, AGroupThatIsWell) {
  EXPECT_EQ(condition_said(good(), "ConsumersScheduled"), "True/Scheduled");
  EXPECT_EQ(condition_said(good(), "Consumers"), "True/Ready");
  EXPECT_EQ(condition_said(good(), "Autoscaler"), "True/AutoscalerDisabled");
  EXPECT_EQ(condition_said(good(), "Ready"), "True/Ready");
  Json status;
  EXPECT_TRUE(set_group_conditions(status, good(), nullptr, kReportTime));
  EXPECT_FALSE(set_group_conditions(status, good(), nullptr, "2026-11-28T19:00:09Z"));
  std::string order;
  for (const Json& one : status.find("conditions")->items()) {
    order += std::string(one.text({"type"})) + " ";
  }
  EXPECT_EQ(order, "ConsumersScheduled Consumers Autoscaler Ready ");
}

TEST(GroupReport, WhatCannotBeScheduledLeavesNoOldSuccess) {
  Json status;
  set_group_conditions(status, good(), nullptr, kReportTime);
  GroupReport report = good();
  report.scheduling = GroupScheduling::kNotEnoughPods;
  report.scheduling_message = "5 of 15 vreplicas have no place";
  report.readiness.ready = false;
  report.readiness.reason = ReadyReason::kPartial;
  EXPECT_EQ(condition_said(report, "ConsumersScheduled", status), "False/NotEnoughPods");
  EXPECT_EQ(condition_said(report, "Ready", status), "False/NotEnoughPods");
  EXPECT_EQ(condition_said(report, "Consumers", status),
            "True/Ready");  // those that have a place are well
  EXPECT_FALSE(is_group_ready(report));
}

TEST(GroupReport, KN_T021_CappedIsNoFailure) {
  GroupReport report = good();
  report.scheduling = GroupScheduling::kCappedByPartitions;
  EXPECT_EQ(condition_said(report, "ConsumersScheduled"), "True/CappedByPartitions");
  EXPECT_EQ(condition_said(report, "Ready"), "True/Ready");
}

TEST(GroupReport, WhatStopsConsumersIsNamed) {
  GroupReport report = good();
  report.trouble = GroupTrouble::kKafkaClient;
  report.trouble_message = "no broker answers";
  EXPECT_EQ(condition_said(report, "Consumers"), "False/KafkaClient");
  EXPECT_EQ(condition_said(report, "Ready"), "False/KafkaClient");
  report = good();
  report.readiness.ready = false;
  report.readiness.reason = ReadyReason::kPodMissing;
  EXPECT_EQ(condition_said(report, "Consumers"), "False/PodMissing");
}

TEST(GroupReport, PhasesFollowOneAnother) {
  GroupProgress progress;
  EXPECT_EQ(group_phase_text(group_phase(progress)), "New");
  progress.offsets_ready = true;
  EXPECT_EQ(group_phase_text(group_phase(progress)), "OffsetsReady");
  progress.placed_any = true;
  EXPECT_EQ(group_phase_text(group_phase(progress)), "Partial");
  progress.placed_all = true;
  EXPECT_EQ(group_phase_text(group_phase(progress)), "Scheduled");
  progress.bound = 1;
  EXPECT_EQ(group_phase_text(group_phase(progress)), "Bound");
  progress.ready = true;
  EXPECT_EQ(group_phase_text(group_phase(progress)), "Ready");
  progress.ready = false;
  progress.was_ready = true;
  EXPECT_EQ(group_phase_text(group_phase(progress)), "Rebalancing");
}

TEST(GroupReport, KN_T041_WhatIsNotOfferedIsNotCalled_AndFiveTriesAreEnough) {
  FarewellFacts facts;
  EXPECT_EQ(group_farewell(facts), GroupFarewell::kDeschedule);
  facts.placed = false;
  facts.consumers = 1;
  EXPECT_EQ(group_farewell(facts), GroupFarewell::kWaitForConsumers);
  facts.consumers = 0;
  EXPECT_EQ(group_farewell(facts), GroupFarewell::kDeleteKafkaGroup);
  facts.can_delete = false;
  EXPECT_EQ(group_farewell(facts), GroupFarewell::kRemoveFinalizer);
  facts.can_delete = true;
  for (facts.tries = 0; facts.tries < 5; ++facts.tries) {
    EXPECT_EQ(group_farewell(facts), GroupFarewell::kDeleteKafkaGroup);
  }
  EXPECT_EQ(group_farewell(facts), GroupFarewell::kRemoveFinalizer);
  facts.tries = 0;
  facts.deleted = true;
  EXPECT_EQ(group_farewell(facts), GroupFarewell::kRemoveFinalizer);
}

}  // namespace
}  // namespace kintsugi::workers
