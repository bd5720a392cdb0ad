#pragma once

#include <string>
#include <string_view>

namespace kintsugi {

/// How many CPUs this process may use at once (OP-206).
struct CpuLimit {
  unsigned allowed = 1;  ///< CPUs that its threads may run on (affinity)
  double quota = 0;      ///< the least quota of its control groups [CPUs]; 0: there is none
  /// As many threads are of use: the less of both, a part of a CPU counted whole, at least 1.
  [[nodiscard]] unsigned cores() const noexcept;
  /// What decides about cores(), for logs.
  [[nodiscard]] std::string_view bound() const noexcept;
};

/// Reads the affinity of the calling thread and files: for start-up. Threads: any.
/// @param root  prefix of /proc and /sys, for tests
[[nodiscard]] CpuLimit cpu_limit(const std::string& root = {});

/// cores() as they were when it was called first. Threads: any.
[[nodiscard]] unsigned usable_cores();

}  // namespace kintsugi
