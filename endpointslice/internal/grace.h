#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "base/time.h"

namespace kintsugi::endpointslice {

/// Remembers since when something has been so about a slice, to let it pass for a while: what is
/// over within the limit never shows. Keeps only what passes or has passed and still is so.
/// Threads: one.
class Grace {
 public:
  /// @param limit zero: nothing ever passes.
  explicit Grace(Duration limit) : limit_(limit) {}

  struct Verdict {
    std::vector<std::string> passing;  ///< those of `what` that began less than the limit ago
    bool began = false;                ///< one of them just now: ask again after the limit
  };
  /// @param what everything that is so about the slice now; anything else ended.
  [[nodiscard]] Verdict judge(std::string_view slice, const std::vector<std::string>& what,
                              TimePoint now);
  /// As the last judge() would say now.
  [[nodiscard]] bool passes(std::string_view slice, const std::string& one, TimePoint now) const;
  /// Nothing is so any more.
  void forget(std::string_view slice);

  [[nodiscard]] Duration limit() const noexcept { return limit_; }
  [[nodiscard]] std::size_t slices() const noexcept { return since_.size(); }

 private:
  Duration limit_;
  StringMap<std::map<std::string, TimePoint>> since_;
};

}  // namespace kintsugi::endpointslice
