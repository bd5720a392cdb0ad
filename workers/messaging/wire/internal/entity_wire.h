#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "workers/messaging/wire/management.h"

namespace kintsugi::workers::wire {

// The two halves behind entity_request() and entity_outcome(), and what both use. Threads: any.

/// Whether entities of this kind stand at brokers.
[[nodiscard]] bool is_broker_entity(EntityKind kind) noexcept;

/// Words of a component for people: at most 512 bytes of valid UTF-8 without control characters
/// and without those that turn the direction of text; what it does not tell apart becomes '?'.
[[nodiscard]] std::string printable(std::string_view text);

/// The attributes as a JSON object.
[[nodiscard]] krm::Json attributes_json(const Attributes& attributes);

[[nodiscard]] ManagementRequest router_entity_request(Operation operation,
                                                      const DesiredEntity& entity);
[[nodiscard]] EntityOutcome router_entity_outcome(Operation operation, const DesiredEntity& entity,
                                                  const ManagementReply& reply);
[[nodiscard]] ManagementRequest broker_entity_request(Operation operation,
                                                      const DesiredEntity& entity);
[[nodiscard]] EntityOutcome broker_entity_outcome(Operation operation, const DesiredEntity& entity,
                                                  const ManagementReply& reply);

}  // namespace kintsugi::workers::wire
