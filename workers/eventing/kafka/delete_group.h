#pragma once

#include <string>

#include "base/time.h"

namespace kintsugi::workers {

/// What became of the wish to delete a group.
struct KafkaGroupDeletion {
  enum class Result : std::uint8_t {
    kDeleted,     ///< it is gone, or never was there
    kNotOffered,  ///< the cluster has no DeleteGroups; it was not called
    kFailed,
  };
  Result result = Result::kFailed;
  std::string text;  ///< of kFailed
};

/// Deletes a group of Kafka with its offsets, by a client of its own. What the broker offers is
/// looked at first (ApiVersions), since librdkafka 2.0.2 does not live through a DeleteGroups that
/// it cannot send. Waits for brokers, so that it is for threads that may.
/// @param timeout  of each request. Threads: any.
[[nodiscard]] KafkaGroupDeletion delete_kafka_group(const std::string& bootstrap_servers,
                                                    const std::string& group, Duration timeout);

}  // namespace kintsugi::workers
