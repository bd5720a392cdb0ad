#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/time.h"
#include "krm/json.h"

namespace kintsugi::apiserver {

/// Keeps a controller from writing one object for ever (SE-100, SE-101).
/// Up to 6 writes of an object within a minute are free. Then an object that comes to a state in
/// which the same controller has left it twice within that minute is in a loop: it rests until its
/// spec, its labels or its deletion change, or until the controller wants another state than those
/// of the loop; what others did is looked at again every 5 min. One that goes on changing is only
/// slowed down: each further write waits longer after the one before, from 5 ms to 10 s.
/// Memory: about 200 bytes for an object that was written within the last minute, and for one that
/// rests. Threads: one loop.
class WriteGuard {
 public:
  static constexpr std::size_t kFree = 6;
  static constexpr Duration kWindow = seconds(60);

  enum class Verdict : std::uint8_t {
    kWrite,
    kLater,  ///< too soon after the last one
    kRest,   ///< in a loop, since this write or before
  };
  /// @param object  as it is to be written.
  [[nodiscard]] Verdict ask(std::string_view key, const krm::Json& object, TimePoint now);
  /// The object was found in a loop by the last ask() of its key, not before.
  [[nodiscard]] bool rests_newly(std::string_view key) const noexcept;
  [[nodiscard]] bool rests(std::string_view key) const noexcept;
  /// Objects that rest now.
  [[nodiscard]] std::size_t resting() const noexcept;

 private:
  struct Entry {
    std::deque<std::pair<TimePoint, std::size_t>> writes;  // when, and the state
    std::vector<std::size_t> loop;                         // states of the loop it rests upon
    std::size_t cause = 0;                                 // what users had decided
    TimePoint again{};                                     // when it may be written once more
    bool rests = false, is_new = false;
  };
  void forget(TimePoint now);

  StringMap<Entry> entries_;
  TimePoint swept_{};
};

}  // namespace kintsugi::apiserver
