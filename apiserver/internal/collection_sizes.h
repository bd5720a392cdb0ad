#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>

#include "base/strings.h"
#include "store/store.h"

namespace kintsugi::apiserver::internal {

/// How many objects large collections hold: counted once, then kept up to date by the changes, so
/// that `remainingItemCount` of a page does not cost a walk over all that follows (AM-086, SE-005).
/// A collection is named by the prefix of its keys. At most kMost are known, of 100 bytes and 16
/// for each of its last kSteps changes; who comes then takes the place of another. Threads: one
/// loop.
class CollectionSizes {
 public:
  static constexpr std::size_t kMost = 1'024;
  /// So many times something came or went before the newest size that older ones are known of.
  static constexpr std::size_t kSteps = 256;
  /// Smaller ones are counted anew as quickly.
  static constexpr std::int64_t kWorth = 128;

  explicit CollectionSizes(std::int64_t worth = kWorth) noexcept : worth_(worth) {}

  /// It has been counted; changes that have not been told yet are missing.
  [[nodiscard]] bool knows(std::string_view prefix) const;
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
  struct Step {
    store::Revision revision = 0;
    std::int64_t more = 0;  ///< 1 or -1
  };
  struct Known {
    store::Revision counted_at = 0;
    store::Revision since = 0;  ///< all that came or went after it is in `steps`
    std::int64_t size = 0;      ///< while it is counted: what came and went meanwhile
    std::deque<Step> steps{};
    bool is_counted = false;
    std::weak_ptr<const char> count{};
  };
  const std::int64_t worth_;
  StringMap<Known> known_;
};

}  // namespace kintsugi::apiserver::internal
