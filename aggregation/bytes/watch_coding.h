#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "aggregation/bytes/json_split.h"
#include "aggregation/bytes/watch_text.h"
#include "base/error.h"

/// The encodings that merged watches speak (AGG-1401): one per stream of a client,
/// and the same for all its shards.
namespace kintsugi::aggregation {

struct WatchCoding {
  std::string_view media_type;    ///< of shards' answers, without parameters
  std::string_view content_type;  ///< of ours
  std::string_view separator;     ///< behind every event
  bool protobuf = false;
  std::optional<EventFacts> (*facts)(std::string_view event) = nullptr;
  std::string (*bookmark)(const StreamKind& kind, std::string_view cursor, bool initial_end,
                          std::string_view columns) = nullptr;
  std::string (*error)(const Error& error) = nullptr;
  /// The event with the marker of a plain server's objects; "": it cannot be understood.
  std::string (*marked)(std::string_view event, std::string_view marker) = nullptr;
  /// @{ Made from what an index or a list knows, without a separator.
  std::string (*item)(std::string_view type, const StreamKind& kind, const ObjectFacts& facts,
                      std::string_view item) = nullptr;
  std::string (*deleted)(const StreamKind& kind, const ObjectFacts& facts, std::uint64_t revision,
                         std::string_view kept) = nullptr;  /// @}
  /// What deleted() needs of a metadata span: labels and ownerReferences.
  std::string (*kept)(std::string_view metadata) = nullptr;
  /// Code of the Status in an ERROR event's object; 0: none.
  std::int64_t (*error_code)(std::string_view object) = nullptr;
};

/// What all streams of a group have in common; the first answer of a shard decides the coding.
struct StreamShape {
  StreamKind kind;                      ///< not known() until something has told
  const WatchCoding* coding = nullptr;  ///< null: not decided
};

/// The clauses of an Accept that allow this media type; "": none.
[[nodiscard]] std::string accept_only(std::string_view accept, std::string_view media_type);

[[nodiscard]] const WatchCoding& json_coding() noexcept;
[[nodiscard]] const WatchCoding& protobuf_coding() noexcept;
/// nullptr: no encoding that merges understand.
[[nodiscard]] const WatchCoding* coding_of(std::string_view content_type) noexcept;

}  // namespace kintsugi::aggregation
