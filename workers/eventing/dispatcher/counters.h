#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kintsugi::workers {

/// What a dispatcher has done since it began, for /metrics.
struct DispatcherCounters {
  std::uint64_t records = 0;                ///< that came from Kafka
  std::uint64_t repeated = 0;               ///< of them, fetched again
  std::array<std::uint64_t, 4> outcomes{};  ///< by DeliveryOutcome
  /// Tries by DeliveryTarget: answered with 2xx, with another status, not at all.
  std::array<std::array<std::uint64_t, 3>, 3> tries{};
  std::uint64_t abandoned = 0;  ///< deliveries that a drain or a loss of their partition has ended
  std::uint64_t commits = 0, failed_commits = 0;
  std::uint64_t kafka_errors = 0;
  std::uint64_t pauses = 0;  ///< of partitions whose records wait
  std::uint64_t contracts = 0;
  std::array<std::uint64_t, 3> refused_contracts{};  ///< by ContractGate::Verdict, but kApply
  std::size_t in_flight = 0, queued = 0, queued_bytes = 0;
};

}  // namespace kintsugi::workers
