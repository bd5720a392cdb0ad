#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/position/continue_token.h"
#include "base/error.h"
#include "http/headers.h"
#include "krm/request_info.h"

/// What a merged list or watch asks for (V01 to V17, AGG-1401).
namespace kintsugi::aggregation {

enum class RvMatch : std::uint8_t { kNone, kExact, kNotOlderThan };

struct MergeQuery {
  bool watch = false;
  std::string resource_version;
  RvMatch match = RvMatch::kNone;
  std::int64_t limit = 0;  ///< 0: none
  std::string continue_token;
  bool bookmarks = false;
  bool partial = false;                ///< without the shards that are away (AGG-1001)
  std::optional<bool> initial_events;  ///< sendInitialEvents
  std::int64_t timeout_seconds = 0;    ///< 0: not said
  std::string label_selector, field_selector, shard_selector;
  /// Everything that every shard is asked with, encoded: selectors, pretty, includeObject, ….
  /// "" or "&a=b&c=d".
  std::string passed_on;
};

/// Checks numbers, selectors and combinations in the order of V01. Labels of fields and names
/// in paths are others' business: the shards', and read_wildcard()'s.
/// @error kBadRequest V01, V11; kInvalid V03-V10 with a cause per rule
[[nodiscard]] Expected<MergeQuery> parse_merge_query(const krm::RequestInfo& info);

/// The media types of the client that merges can answer, in its order, for the shards' Accept: JSON
/// in all its forms, and protobuf if `protobuf`. nullopt: 406.
[[nodiscard]] std::optional<std::string> mergeable_accept(std::string_view accept,
                                                          bool protobuf = false);
/// 406 of an Accept of which nothing is left.
[[nodiscard]] Error not_mergeable(bool protobuf);
/// @{ What is left of a mergeable Accept without protobuf, or without Tables; "": nothing.
[[nodiscard]] std::string without_protobuf(std::string_view accept);
[[nodiscard]] std::string without_tables(std::string_view accept);  /// @}
/// A mergeable Accept allows a Table.
[[nodiscard]] bool allows_table(std::string_view accept);

}  // namespace kintsugi::aggregation
