#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "krm/json.h"
#include "workers/eventing/control/internal/eventing_objects.h"

namespace kintsugi::workers {

extern const Resource kKafkaSources;
inline constexpr std::string_view kSourceFinalizer = "kafkasources.eventing.knative.dev";

/// A KafkaSource.
struct CachedSource {
  std::string uid;
  std::int64_t generation = 0;
  bool deleting = false, has_finalizer = false;
  KeptJson object;  ///< of the metadata what patches and the group need, spec, status
};
/// With one index: CachedSource::uid.
[[nodiscard]] Projection<CachedSource> source_projection();

/// The ConsumerGroup of a KafkaSource: it has the source's namespace, and the source's uid as its
/// name; the source owns it. Its finalizer is there from the start.
/// @param source  with `metadata` {namespace, name, uid}; the schema holds for it
[[nodiscard]] krm::Json group_of_source(std::string_view ns, std::string_view name,
                                        const krm::Json& source);

/// The merge patch that gives a group the spec and the policy that group_of_source() says; nullopt:
/// it has them.
[[nodiscard]] std::optional<std::string> group_patch(const krm::Json& had, const krm::Json& wish);

/// Sets the Placeable (KN-2), sink, consumers, and the conditions SinkProvided, ConsumerGroup and
/// Ready, as the group's status has them. @param group  nullptr: it is not there yet
/// @param now  RFC 3339
void set_source_status(krm::Json& status, std::int64_t generation, const CachedGroup* group,
                       std::string_view now);

/// The group says that its pods do not all have its placement, which passes.
[[nodiscard]] bool is_group_passing(const CachedGroup& group);

}  // namespace kintsugi::workers
