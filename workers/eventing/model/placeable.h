#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "workers/runtime/placement/placement.h"

namespace kintsugi::workers {

/// Where the units ("virtual replicas") of an object are, as its status says it. KN-1.
struct Placeable {
  std::optional<std::int64_t> max_allowed;  ///< maxAllowedVReplicas: partitions; 0 .. 2^31-1
  std::vector<Placed> placements;           ///< host: the pod's name; each once, n > 0
  bool operator==(const Placeable&) const = default;
};

/// A Placeable, and what of it had to be put right: entries without a pod or with no positive
/// count are dropped, those of one pod added up, counts and their sum end at 2^31-1.
struct ReadPlaceable {
  Placeable placeable;
  std::string problem;  ///< the first, for an event; "": all was well
};

/// Entries as they should be, in the order of their first appearance.
[[nodiscard]] std::vector<Placed> normalise_placements(std::span<const Placed> list,
                                                       std::string* problem = nullptr);

/// @{ Of a status that embeds the Placeable (KN-2): `maxAllowedVReplicas`, `placements[]{podName,
/// vreplicas}`. Writing leaves other members alone.
[[nodiscard]] ReadPlaceable read_status_placeable(const krm::Json& status);
void write_status_placeable(krm::Json& status, const Placeable& placeable);
/// @}

/// @{ Of `status.annotations` of a Trigger (KN-4, KN-5), whose values are texts. Reading takes the
/// indexes that are there, with gaps; writing begins at 0, leaves none, and takes out indexes that
/// were there before.
inline constexpr std::string_view kPlaceablePrefix =
    "kafka.eventing.knative.dev/scheduler.placeable.";
[[nodiscard]] ReadPlaceable read_annotation_placeable(const krm::Json& annotations);
void write_annotation_placeable(krm::Json& annotations, const Placeable& placeable);
/// @}

[[nodiscard]] std::int64_t sum_of_placements(std::span<const Placed> list) noexcept;
/// What the claim has on a pod, 0 for none.
[[nodiscard]] std::int64_t placed_on(std::span<const Placed> list, std::string_view pod) noexcept;

/// "p0=8,p1=7", by the pods' names, whatever the order of `list`. KD-2.
[[nodiscard]] std::string canonical_placements(std::span<const Placed> list);
/// The first 8 hex digits of its SHA-256.
[[nodiscard]] std::string placements_digest(std::span<const Placed> list);

}  // namespace kintsugi::workers
