#include "workers/eventing/model/group_report.h"

namespace kintsugi::workers {
namespace {

constexpr std::string_view kScheduledType = "ConsumersScheduled", kConsumersType = "Consumers",
                           kAutoscalerType = "Autoscaler", kReadyType = "Ready";

bool is_scheduled(GroupScheduling scheduling) noexcept {
  return scheduling == GroupScheduling::kScheduled ||
         scheduling == GroupScheduling::kCappedByPartitions;
}

Condition scheduled_condition(const GroupReport& report) {
  const bool ok = is_scheduled(report.scheduling);
  return {kScheduledType, ok ? ConditionStatus::kTrue : ConditionStatus::kFalse,
          group_scheduling_text(report.scheduling), report.scheduling_message,
          report.observed_generation};
}

Condition consumers_condition(const GroupReport& report) {
  Condition out{kConsumersType, ConditionStatus::kFalse, "", "", report.observed_generation};
  if (report.trouble != GroupTrouble::kNone) {
    out.reason = group_trouble_text(report.trouble);
    out.message = report.trouble_message;
    return out;
  }
  // What is not placed is the other condition's to say.
  const bool partial = report.readiness.reason == ReadyReason::kPartial;
  const bool ok = report.readiness.ready || partial;
  out.status = ok ? ConditionStatus::kTrue : ConditionStatus::kFalse;
  out.reason = ready_reason_text(ok ? ReadyReason::kReady : report.readiness.reason);
  out.message = report.readiness.message;
  return out;
}

}  // namespace

std::string_view group_scheduling_text(GroupScheduling scheduling) noexcept {
  switch (scheduling) {
    case GroupScheduling::kScheduled:
      return "Scheduled";
    case GroupScheduling::kCappedByPartitions:
      return "CappedByPartitions";
    case GroupScheduling::kNotEnoughPods:
      return "NotEnoughPods";
    case GroupScheduling::kSchedule:
      return "Schedule";
    case GroupScheduling::kInvalidReplicas:
      return "InvalidReplicas";
    case GroupScheduling::kContractTooLarge:
      return "ContractTooLarge";
  }
  return "";
}

std::string_view group_trouble_text(GroupTrouble trouble) noexcept {
  constexpr std::string_view kTexts[] = {"",
                                         "ListConsumers",
                                         "ReconcileConsumer",
                                         "PropagateConsumerStatus",
                                         "FinalizeConsumer",
                                         "InitializeOffset",
                                         "KafkaClient",
                                         "KafkaClusterAdmin",
                                         "AuthSecret",
                                         "PropagateSubscriberURI",
                                         "PropagateDeadLetterSinkURI",
                                         "DeleteConsumerGroupOffset",
                                         "Deschedule",
                                         "TopicMissing"};
  return kTexts[static_cast<std::size_t>(trouble)];
}

bool is_group_ready(const GroupReport& report) noexcept {
  return is_scheduled(report.scheduling) && report.trouble == GroupTrouble::kNone &&
         report.readiness.ready;
}

bool set_group_conditions(krm::Json& status, const GroupReport& report, const Redactor* redactor,
                          std::string_view now) {
  const ConditionRules rules{{kScheduledType, kConsumersType, kAutoscalerType, kReadyType},
                             redactor};
  const Condition scheduled = scheduled_condition(report), consumers = consumers_condition(report);
  const bool ready = is_group_ready(report);
  const Condition& first = scheduled.status == ConditionStatus::kTrue ? consumers : scheduled;
  const Condition last{kReadyType, ready ? ConditionStatus::kTrue : ConditionStatus::kFalse,
                       ready ? std::string_view("Ready") : first.reason,
                       ready ? std::string() : first.message, report.observed_generation};
  const Condition autoscaler{kAutoscalerType, ConditionStatus::kTrue, "AutoscalerDisabled", "",
                             report.observed_generation};
  bool changed = false;
  for (const Condition* const one : {&scheduled, &consumers, &autoscaler, &last}) {
    changed = set_condition(status, rules, *one, now) || changed;
  }
  return changed;
}

std::string_view group_phase_text(GroupPhase phase) noexcept {
  constexpr std::string_view kTexts[] = {"New",   "OffsetsReady", "Partial",    "Scheduled",
                                         "Bound", "Ready",        "Rebalancing"};
  return kTexts[static_cast<std::size_t>(phase)];
}

GroupPhase group_phase(const GroupProgress& progress) noexcept {
  if (progress.ready) {
    return GroupPhase::kReady;
  }
  if (progress.was_ready) {
    return GroupPhase::kRebalancing;
  }
  if (!progress.offsets_ready) {
    return GroupPhase::kNew;
  }
  if (!progress.placed_any) {
    return GroupPhase::kOffsetsReady;
  }
  if (!progress.placed_all) {
    return GroupPhase::kPartial;
  }
  return progress.bound > 0 ? GroupPhase::kBound : GroupPhase::kScheduled;
}

GroupFarewell group_farewell(const FarewellFacts& facts) noexcept {
  if (facts.placed) {
    return GroupFarewell::kDeschedule;
  }
  if (facts.consumers > 0) {
    return GroupFarewell::kWaitForConsumers;
  }
  const bool over = facts.deleted || facts.tries >= kMostDeleteTries || facts.can_delete == false;
  return over ? GroupFarewell::kRemoveFinalizer : GroupFarewell::kDeleteKafkaGroup;
}

}  // namespace kintsugi::workers
