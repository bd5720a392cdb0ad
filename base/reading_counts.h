#pragma once

#include <cstdint>

namespace kintsugi {

/// How often this thread has read what requests say, since it began: a request is read once, and
/// tests compare (SE-020). Cost: an increment.
struct ReadingCounts {
  std::uint64_t targets = 0;        ///< krm::parse_target()
  std::uint64_t infos = 0;          ///< krm::parse_request_info()
  std::uint64_t service_paths = 0;  ///< krm::parse_service_path()
  std::uint64_t tokens = 0;         ///< auth::parse_jwt()
  std::uint64_t lookups = 0;        ///< topology::resolve()
};
inline constinit thread_local ReadingCounts reading_counts;

}  // namespace kintsugi
