#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/strings.h"
#include "store/store.h"

namespace kintsugi::apiserver::internal {

/// How many objects large collections hold: counted once, then kept up to date by the changes, so
/// that `remainingItemCount` of a page does not cost a walk over all that follows (AM-279, SE-005).
/// A collection is named by the prefix of its keys. At most kMost are known, of 100 bytes each; who
/// comes then takes the place of another. Threads: one loop.
class CollectionSizes {
 public:
  static constexpr std::size_t kMost = 1'024;

  /// nullopt: it is not known, or not as of that revision. Exact.
  /// @param at  at most the revision up to which changes have been told
  [[nodiscard]] std::optional<std::int64_t> at(std::string_view prefix, store::Revision at) const;

  /// Who counts a collection. Without it, another one may begin.
  using Count = std::shared_ptr<const char>;
  /// Somebody begins to count it as of `at`. Null: it is known, or another one counts it.
  /// @param at  not below the revision up to which changes have been told
  [[nodiscard]] Count begin(std::string_view prefix, store::Revision at);
  /// What he found. Nothing is known of a collection that has been forgotten since.
  void end(std::string_view prefix, const Count& count, std::int64_t size);

  /// One change of a key that `prefix` begins, in order of the revisions.
  void note(std::string_view prefix, const store::Event& event);

  [[nodiscard]] bool is_empty() const noexcept { return known_.empty(); }

 private:
  struct Known {
    store::Revision counted_at = 0;
    store::Revision since = 0;  ///< nothing came or went from this revision on
    std::int64_t size = 0;      ///< while it is counted: what came and went meanwhile
    bool is_counted = false;
    std::weak_ptr<const char> count{};
  };
  StringMap<Known> known_;
};

}  // namespace kintsugi::apiserver::internal
