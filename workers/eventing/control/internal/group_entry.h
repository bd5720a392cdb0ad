#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "workers/eventing/contract/contract.h"
#include "workers/eventing/model/group_report.h"

namespace kintsugi::workers {

/// What a ConsumerGroup's template means: its entry in contracts, and what Kafka is asked.
struct GroupEntry {
  /// With one egress, whose vReplicas each pod has its own of; resource and egress have the uid of
  /// the group.
  ContractResource resource;
  std::string group_id, bootstrap;
  bool latest = true;  ///< begins at the end of topics where it has no offsets
  std::string subscriber, dead_letter, subscriber_ca_certs, dead_letter_ca_certs;  ///< URLs, PEM
  GroupTrouble trouble = GroupTrouble::kNone;  ///< it is in no contract
  std::string message;
  bool filter_unsupported = false;  ///< that is its trouble (DP-6)
  /// Of contracts, at most (encoded_size with the most digits) [bytes].
  std::int64_t bytes = 0;
};

/// Reads metadata and `spec.template.spec` of a group. What cannot be is its trouble: sinks that
/// are no http(s) URLs or references, credentials, filters of CESQL, durations that are none.
/// Threads: any.
[[nodiscard]] GroupEntry group_entry(std::string_view ns, std::string_view name,
                                     const krm::Json& object, ContractFormat format);

/// Which StatefulSet's pods a group is placed on: by `spec.topLevelResourceRef.kind`, and those of
/// sources without one.
[[nodiscard]] std::string_view pool_of_group(const krm::Json& object) noexcept;
inline constexpr std::string_view kEventingPools[] = {
    "kafka-broker-dispatcher", "kafka-channel-dispatcher", "kafka-source-dispatcher"};

}  // namespace kintsugi::workers
