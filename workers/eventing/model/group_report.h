#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "krm/json.h"
#include "workers/eventing/model/readiness.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {

/// What the scheduler says of a group.
enum class GroupScheduling : std::uint8_t {
  kScheduled,
  kCappedByPartitions,
  kNotEnoughPods,  ///< is no failure: the rest of the group goes on
  kSchedule,       ///< it could not be decided or written
  kInvalidReplicas,
  kContractTooLarge,
};
[[nodiscard]] std::string_view group_scheduling_text(GroupScheduling scheduling) noexcept;

/// Why consumers cannot be made, before any pod is asked. Names of reasons of conditions.
enum class GroupTrouble : std::uint8_t {
  kNone,
  kListConsumers,
  kReconcileConsumer,
  kPropagateConsumerStatus,
  kFinalizeConsumer,
  kInitializeOffset,
  kKafkaClient,
  kKafkaClusterAdmin,
  kAuthSecret,
  kPropagateSubscriberUri,
  kPropagateDeadLetterSinkUri,
  kDeleteConsumerGroupOffset,
  kDeschedule,
  kTopicMissing,
};
[[nodiscard]] std::string_view group_trouble_text(GroupTrouble trouble) noexcept;

/// What the status of a ConsumerGroup is to say.
struct GroupReport {
  std::int64_t observed_generation = 0;
  GroupScheduling scheduling = GroupScheduling::kScheduled;
  std::string scheduling_message;
  GroupTrouble trouble = GroupTrouble::kNone;
  std::string trouble_message;
  Readiness readiness;
};

/// Sets ConsumersScheduled, Consumers, Autoscaler and Ready, in this order. What cannot be
/// scheduled says so at once: nothing of an earlier success is left standing.
/// @param redactor  may be nullptr; @param now  RFC 3339. @returns whether anything has changed
bool set_group_conditions(krm::Json& status, const GroupReport& report, const Redactor* redactor,
                          std::string_view now);
[[nodiscard]] bool is_group_ready(const GroupReport& report) noexcept;

/// How far a group has come.
enum class GroupPhase : std::uint8_t {
  kNew,
  kOffsetsReady,
  kPartial,
  kScheduled,
  kBound,
  kReady,
  kRebalancing
};
[[nodiscard]] std::string_view group_phase_text(GroupPhase phase) noexcept;
struct GroupProgress {
  bool offsets_ready = false;
  bool placed_any = false;  ///< its status has placements, or needs none
  bool placed_all = false;
  std::size_t bound = 0;  ///< pods that have seen the placement
  bool ready = false;
  bool was_ready = false;  ///< has been Ready since it was last changed
};
[[nodiscard]] GroupPhase group_phase(const GroupProgress& progress) noexcept;

/// What is to be done next for a group that is being deleted.
enum class GroupFarewell : std::uint8_t {
  kDeschedule,        ///< its placements are written away first
  kWaitForConsumers,  ///< the pods' contracts still have it
  kDeleteKafkaGroup,  ///< to be asked of the cluster
  kRemoveFinalizer,
};
struct FarewellFacts {
  bool placed = true;
  std::size_t consumers = 0;
  /// Whether the cluster has DeleteGroups at all; nullopt: it is not known yet. What it does not
  /// offer is never called.
  std::optional<bool> can_delete = std::nullopt;
  bool deleted = false;
  int tries = 0;  ///< that failed
};
inline constexpr int kMostDeleteTries = 5;
[[nodiscard]] GroupFarewell group_farewell(const FarewellFacts& facts) noexcept;

}  // namespace kintsugi::workers
