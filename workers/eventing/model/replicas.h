#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "krm/json.h"

namespace kintsugi::workers {

/// @{ What the author of a Trigger or Subscription asks for by annotations. KN-3, KD-5.
inline constexpr std::string_view kReplicasAnnotation = "kafka.eventing.knative.dev/replicas";
inline constexpr std::string_view kReplicasPolicyAnnotation =
    "kafka.eventing.knative.dev/replicas-policy";
inline constexpr std::string_view kUnboundedPolicy = "Unbounded";
/// @}

/// Without a bound by partitions nobody gets more.
inline constexpr std::int64_t kMostUnboundedReplicas = 1'000;

/// How many units an object asks for.
struct ReplicasWish {
  std::int64_t requested = 1;
  bool unbounded = false;
  /// Not "": the wish cannot be read; names the key. What was placed stays as it is (KD-6).
  std::string invalid;
};

/// Of metadata.annotations. Without the annotation: 1.
[[nodiscard]] ReplicasWish read_replicas_annotation(const krm::Json& annotations);
/// Of a number in a spec (`spec.replicas`, `spec.consumers`). Absent: 1. @param field  for texts
/// @param annotations  of the same object, for its policy
[[nodiscard]] ReplicasWish read_replicas_field(const krm::Json* value, std::string_view field,
                                               const krm::Json& annotations);

/// What is to be placed.
struct EffectiveReplicas {
  std::int64_t wanted = 0;
  std::optional<std::int64_t> max_allowed;  ///< KN-4: the partitions; nullopt: no bound
  bool capped = false;                      ///< CappedByPartitions
};
/// KD-5. @param wish  is valid
/// @param partitions  of the topics together; nullopt: they are not known
/// @returns nullopt: nothing can be said until they are.
[[nodiscard]] std::optional<EffectiveReplicas> effective_replicas(
    const ReplicasWish& wish, std::optional<std::int64_t> partitions) noexcept;

}  // namespace kintsugi::workers
