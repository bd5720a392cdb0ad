#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "aggregation/bytes/json_split.h"

/// Taking JSON lists of shards apart into spans of bytes, as they arrive (AGG-1401).
namespace kintsugi::aggregation {

/// Everything of a list but its items.
struct ListEnvelope {
  std::string kind, api_version;
  std::string resource_version, continue_token;
  std::optional<std::int64_t> remaining;
  std::string shard_info;  ///< raw metadata.shardInfo
  std::string columns;     ///< raw columnDefinitions of a Table
};

/// Takes a list's body apart while it arrives: items (rows of a Table) one by one, the rest at the
/// end. Key order does not matter. Memory: one item, and the envelope up to 1 MiB.
class ListSplitter {
 public:
  enum class Fault : std::uint8_t { kNone, kMalformed, kTooLarge };
  explicit ListSplitter(std::size_t max_item) noexcept : max_item_(max_item) {}

  [[nodiscard]] Fault feed(std::string_view bytes,
                           const std::function<void(std::string_view item)>& take);
  /// The list is complete.
  [[nodiscard]] bool done() const noexcept { return state_ == State::kEnd; }
  /// Items have begun; with typed objects everything but their end is known then.
  [[nodiscard]] bool items_begun() const noexcept { return items_begun_; }
  /// What is known by now; complete when done().
  [[nodiscard]] const ListEnvelope& envelope() const noexcept { return envelope_; }

 private:
  enum class State : std::uint8_t {
    kStart,
    kKeyOrEnd,
    kKey,
    kInKey,
    kColon,
    kValue,
    kInContainer,
    kInString,
    kInScalar,
    kCommaOrEnd,
    kItemOrEnd,
    kItem,
    kInItem,
    kItemCommaOrEnd,
    kEnd
  };
  bool finish_member();
  void begin(State state, char first);

  std::size_t max_item_;
  State state_ = State::kStart;
  ValueScan scan_;
  bool escaped_ = false;
  bool items_begun_ = false;
  std::string key_;
  std::string value_;  // of the member or item that is incomplete
  ListEnvelope envelope_;
};

}  // namespace kintsugi::aggregation
