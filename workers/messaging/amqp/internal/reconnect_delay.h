#pragma once

#include <cstdint>

#include "base/time.h"

namespace kintsugi::workers {

/// How long to wait before a component is dialled again: doubled with every failure in a row,
/// anywhere between half of it and the whole, so that many do not come at once. Threads: one at a
/// time.
class ReconnectDelay {
 public:
  ReconnectDelay(Duration least, Duration most, std::uint64_t seed) noexcept;
  /// Between `least` and `most`.
  [[nodiscard]] Duration next() noexcept;
  /// It was of use: the next is the shortest again.
  void succeed() noexcept { upper_ = first_; }

 private:
  const Duration least_, most_, first_;
  Duration upper_;
  std::uint64_t random_;
};

}  // namespace kintsugi::workers
