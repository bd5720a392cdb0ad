#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace kintsugi::workers {

/// What Kafka is asked about a group before it is placed.
struct KafkaQuestion {
  std::string bootstrap_servers, group;
  std::vector<std::string> topics;
  /// Partitions in which the group has no offset get that of their end committed (KN-T037); those
  /// that have one are left alone.
  bool begin_at_end = false;
  Duration timeout = seconds(10);  ///< of each request
  bool operator==(const KafkaQuestion&) const = default;
};

struct KafkaFacts {
  enum class Fault : std::uint8_t { kNone, kUnreachable, kTopicMissing, kOffsets };
  Fault fault = Fault::kNone;
  std::string text;             ///< of the fault
  std::int64_t partitions = 0;  ///< of the topics together
  std::int64_t begun = 0;       ///< partitions that had no offset and have one now
};

/// Asks, by a client of its own. Waits for brokers, so that it is for threads that may; a cluster
/// that is not there costs the timeout. Never joins the group.
/// Errors: they are the fault. Threads: any.
[[nodiscard]] KafkaFacts ask_kafka(const KafkaQuestion& question);

}  // namespace kintsugi::workers
