#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workers/runtime/lease/lease_record.h"
#include "workers/runtime/ring/internal/ring_table.h"

namespace kintsugi::workers {

/// On a member's Lease, decimal: the highest generation of the ring table of which it has given up
/// everything that the table takes from it. Source: RT-65.
inline constexpr std::string_view kRingAckAnnotation = "kintsugi.dev/ring-ack";
/// On a member's Lease, JSON: the rest of a RingReport.
inline constexpr std::string_view kRingReportAnnotation = "kintsugi.dev/ring-report";

/// What a member tells the coordinator on its own Lease. Bad text reads as zeros: a report can
/// only speed things up, or raise generations and epochs.
struct RingReport {
  std::uint64_t ack = 0;
  std::uint64_t seen = 0;      ///< generation of the table that it follows
  std::uint64_t rejected = 0;  ///< generation of a table that cannot follow that one; 0: none
  std::uint32_t epoch = 0;     ///< highest epoch of any partition that it knows of
  bool leaving = false;        ///< with an empty holder: it has stopped for good
  /// Partitions of its own that a peer refused, with the peer's epoch (RT-54); at most kMaxRaises.
  std::vector<std::pair<PartitionId, std::uint32_t>> raise;

  static constexpr std::size_t kMaxRaises = 16;
  bool operator==(const RingReport&) const = default;
  /// The value of kRingReportAnnotation.
  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static RingReport read(const LeaseRecord& lease);
};

}  // namespace kintsugi::workers
