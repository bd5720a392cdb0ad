#pragma once

#include <cstddef>
#include <vector>

namespace kintsugi::server {

/// How many of its watches a replica ends, so that others have as many (GR-213): it begins when it
/// has more than 1.5 times the mean of the others, and ends when it has 1.2 times the mean of all.
/// Pure.
class WatchBalance {
 public:
  static constexpr double kBegins = 1.5, kEnds = 1.2, kShare = 0.01;
  static constexpr std::size_t kLeast = 100;  ///< with fewer it is not worth a client's trouble
  static constexpr int kCalm = 10;            ///< [s] what others say may be as old

  /// Once a second. @param others  watches of those that take requests, too
  /// @returns how many go in this second, at most a hundredth of `own`.
  [[nodiscard]] std::size_t step(std::size_t own, const std::vector<std::size_t>& others);
  [[nodiscard]] bool is_ending() const noexcept { return is_ending_; }

 private:
  bool is_ending_ = false;
  int calm_ = 0;    ///< so many seconds it has had few enough
  double due_ = 0;  ///< what of a watch is left over from seconds before
};

}  // namespace kintsugi::server
