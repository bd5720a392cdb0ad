#pragma once

#include <cstdint>
#include <string_view>

#include "krm/json.h"
#include "workers/eventing/control/internal/owned_group.h"

namespace kintsugi::workers {

extern const Resource kKafkaSources;
inline constexpr std::string_view kSourceFinalizer = "kafkasources.eventing.knative.dev";

/// The ConsumerGroup of a KafkaSource, owned_group().
/// @param source  with `metadata` {namespace, name, uid}; the schema holds for it
[[nodiscard]] krm::Json group_of_source(std::string_view ns, std::string_view name,
                                        const krm::Json& source);

/// Sets the Placeable (KN-2), sink, consumers, and the conditions SinkProvided, ConsumerGroup and
/// Ready, as the group's status has them. @param group  nullptr: it is not there yet
/// @param now  RFC 3339
void set_source_status(krm::Json& status, std::int64_t generation, const CachedGroup* group,
                       std::string_view now);

}  // namespace kintsugi::workers
