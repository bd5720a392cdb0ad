#pragma once

#include <cstddef>
#include <vector>

#include "base/time.h"

namespace kintsugi::store::etcd {

/// Which member is asked: one that answers, and that stays until it does not. One that has failed
/// comes last for 10 s (GR-114). Pure.
class MemberChoice {
 public:
  explicit MemberChoice(std::size_t members) : failed_at_(members) {}

  [[nodiscard]] std::size_t pick(TimePoint now) const;
  /// Another one than `member`, where there is one.
  [[nodiscard]] std::size_t other_than(std::size_t member, TimePoint now) const;
  void on_failed(std::size_t member, TimePoint now);
  void on_answered(std::size_t member);

 private:
  [[nodiscard]] bool is_resting(std::size_t member, TimePoint now) const;

  std::vector<TimePoint> failed_at_;  // epoch: it has not
  std::size_t current_ = 0;
};

}  // namespace kintsugi::store::etcd
