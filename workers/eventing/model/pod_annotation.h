#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "krm/json.h"

namespace kintsugi::workers {

/// The one annotation of a dispatcher pod that says which decisions its contract holds. KD-1. With
/// a `.` and `<namespace>/<name>` behind it, it is the form of the seed, which has one annotation
/// for each object, is read, and never written: an API server takes no key with two slashes.
inline constexpr std::string_view kSeenAnnotation =
    "kafka.eventing.knative.dev/scheduler.placeable.Placements";
/// Generation of the contract that the pod was last given; not `kafka.eventing…`, as upstream has
/// it.
inline constexpr std::string_view kVolumeGenerationAnnotation = "volumeGeneration";

/// What a pod has seen of one object.
struct SeenDecision {
  std::int64_t generation = 0;  ///< its status.observedGeneration, >= 0
  /// placements_digest() of the decision. nullopt: the seed's form, which has none.
  std::optional<std::string> digest;
  bool operator==(const SeenDecision&) const = default;
};

/// By "<cluster>|<namespace>/<name>".
using SeenDecisions = std::map<std::string, SeenDecision, std::less<>>;

[[nodiscard]] std::string seen_key(std::string_view cluster, std::string_view ns,
                                   std::string_view name);

/// "<generation>.<digest>"; the seed's is the number alone. nullopt: it is neither.
[[nodiscard]] std::optional<SeenDecision> parse_seen(std::string_view value, bool of_seed) noexcept;

/// Of metadata.annotations. What cannot be read is as if it were not there; of an object in both
/// forms the JSON one counts. @param cluster  of the pod: the seed's form names none
[[nodiscard]] SeenDecisions read_seen(const krm::Json& annotations, std::string_view cluster);

/// The value of kSeenAnnotation: a JSON object, keys sorted. @param seen  all with a digest
[[nodiscard]] std::string write_seen(const SeenDecisions& seen);

/// The merge patch that makes a pod's annotations say so (KP-4), and takes the seed's form out;
/// nullopt: they do already (KP-5).
[[nodiscard]] std::optional<krm::Json> seen_patch(const krm::Json& annotations,
                                                  const SeenDecisions& seen,
                                                  std::int64_t volume_generation);

}  // namespace kintsugi::workers
