#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "workers/eventing/model/pod_annotation.h"
#include "workers/runtime/placement/placement.h"

namespace kintsugi::workers {

/// How long a pod that an object is placed on may be gone (KD-3).
struct MissingPodTimes {
  Duration keeps_ready = seconds(60);  ///< for an object that was Ready
  Duration reschedule = seconds(300);  ///< then its units go elsewhere
};

/// A pod as one of an object's placements sees it.
struct PodSight {
  bool exists = false;
  Duration missing_for{};               ///< where it does not exist
  bool beyond = false;                  ///< its ordinal is not below the StatefulSet's replicas
  const SeenDecisions* seen = nullptr;  ///< nullptr: it has no such annotation
};

/// What is known of an object whose units are placed.
struct ReadinessFacts {
  std::string_view key;  ///< seen_key() of it
  std::int64_t generation = 0, observed_generation = 0;
  std::int64_t wanted = 0;               ///< effective_replicas()
  std::span<const Placed> placements;    ///< as its status says
  std::span<const PodSight> pods;        ///< one for each of these
  std::span<const std::string> digests;  ///< of these; while units move, of what is between, too
  bool sinks_resolved = false, offsets_initialised = false;
  bool was_ready = false;
};

enum class ReadyReason : std::uint8_t {
  kReady,
  kGenerationBehind,  ///< the object was changed since it was looked at
  kSinks,             ///< who sets it knows which one
  kOffsets,
  kPartial,         ///< fewer, or more, units are placed than wanted
  kPodMissing,      ///< a pod is gone for longer than the object may be Ready without it
  kPodNotSeen,      ///< a pod has no annotation at all
  kBindInProgress,  ///< a pod has not seen this decision
};
/// Of the condition that says so.
[[nodiscard]] std::string_view ready_reason_text(ReadyReason reason) noexcept;

struct Readiness {
  bool ready = false;
  ReadyReason reason = ReadyReason::kBindInProgress;
  std::string message;                  ///< "1 of 2 pods have the placement"
  std::size_t bound = 0;                ///< pods that have seen the decision
  std::optional<Duration> look_again;   ///< when time alone may change the answer
  std::vector<std::size_t> reschedule;  ///< placements whose pod is gone for good
};

/// Ready: the generation is the observed one, and each pod of the placements exists and has seen
/// this decision, a generation that is not older with the same digest; sinks and offsets are there,
/// and what is placed is what is wanted. Source: KN-8, KD-2, KD-3. Cost: O(placements).
[[nodiscard]] Readiness judge_readiness(const ReadinessFacts& facts,
                                        const MissingPodTimes& times = {});

}  // namespace kintsugi::workers
