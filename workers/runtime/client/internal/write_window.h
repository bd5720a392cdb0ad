#pragma once

#include <algorithm>
#include <cstddef>

#include "base/time.h"

namespace kintsugi::workers {

/// How many writes a client has under way at once: more while a server takes them, a quarter fewer
/// when it says that it has no room (429), and for a while no more than that. A server that refuses
/// makes whoever wrote wait for whole seconds; one that is asked for less is done sooner. Source:
/// RT-16. No clock. Threads: one at a time.
class WriteWindow {
 public:
  static constexpr std::size_t kLeast = 4, kBegin = 24, kMost = 64;
  /// One refusal is of all that were under way then.
  static constexpr Duration kOnce = seconds(1);
  /// So long it does not grow to where it was refused.
  static constexpr Duration kKnown = seconds(30);

  [[nodiscard]] bool has_room() const noexcept { return taken_ < limit(); }
  void take() noexcept { ++taken_; }
  /// What was taken is not sent, or nobody waits for its answer any more.
  void give_back() noexcept { --taken_; }
  /// The same, with an answer.
  void answered(bool refused, TimePoint now) noexcept {
    const bool was_full = taken_ >= limit();
    --taken_;
    if (refused) {
      if (now >= refused_ + kOnce || refused_ == TimePoint{}) {
        refused_ = now;
        size_ = std::max(double{kLeast}, size_ * 0.75);
        known_ = size_;
      }
      return;
    }
    const bool knows = refused_ != TimePoint{} && now < refused_ + kKnown;
    if (was_full) {
      size_ = std::min(size_ + 1 / size_, knows ? known_ : double{kMost});
    }
  }
  [[nodiscard]] std::size_t limit() const noexcept { return static_cast<std::size_t>(size_); }
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }

 private:
  double size_ = kBegin, known_ = kMost;
  std::size_t taken_ = 0;
  TimePoint refused_{};
};

}  // namespace kintsugi::workers
