#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "aggregation/bytes/json_scan.h"
#include "base/error.h"

/// Taking JSON lists and event streams of shards apart into spans of bytes, as they arrive
/// (AGG-1401).
namespace kintsugi::aggregation {

/// Cuts a watch stream into events. An event inside one piece of bytes is not copied.
class EventSplitter {
 public:
  enum class Fault : std::uint8_t { kNone, kMalformed, kTooLarge };
  /// @param max_bytes  of one event (AGG-1205)
  explicit EventSplitter(std::size_t max_bytes) noexcept : max_bytes_(max_bytes) {}

  /// Calls `take` with each event that is complete now, from '{' to '}'; views hold during the
  /// call. After a fault nothing more is understood.
  [[nodiscard]] Fault feed(std::string_view bytes,
                           const std::function<void(std::string_view event)>& take);
  /// No event is incomplete.
  [[nodiscard]] bool at_boundary() const noexcept { return partial_.empty(); }
  /// The beginning of the event that is incomplete, or that is too large.
  [[nodiscard]] std::string_view incomplete() const noexcept { return partial_; }

 private:
  std::size_t max_bytes_;
  ValueScan scan_;
  std::string partial_;
};

/// What the merge needs to know of an object; spans of its text.
struct ObjectFacts {
  std::string_view kind, api_version;
  std::string_view name, ns, uid, cluster;  ///< cluster: annotation kcp.io/cluster
  std::uint64_t revision = 0;    ///< metadata.resourceVersion; 0: absent, "" or no number
  bool initial_end = false;      ///< annotation k8s.io/initial-events-end
  std::string_view metadata;     ///< raw
  std::string_view annotations;  ///< raw; empty: none
};

/// A logical cluster that exists on every shard (AGG-1501).
[[nodiscard]] inline bool is_system_cluster(std::string_view cluster) noexcept {
  return cluster.starts_with("system:");
}
/// Objects of such clusters have no place in a merge, unless their marker says of which shard.
[[nodiscard]] inline bool is_hidden(const ObjectFacts& facts) noexcept {
  return is_system_cluster(facts.cluster);
}

enum class EventType : std::uint8_t { kAdded, kModified, kDeleted, kBookmark, kError, kUnknown };

/// Of a watch event's `type`.
[[nodiscard]] EventType event_type(std::string_view text) noexcept;

struct EventFacts {
  EventType type = EventType::kUnknown;
  std::string_view object;  ///< raw
  ObjectFacts facts;        ///< of a Table: of its first row's object
  /// A Table's columnDefinitions, raw; "": the event has none, as any but a stream's first.
  std::string_view columns;
};

/// nullopt: the text is no object, or has no metadata. Strings with escapes count as absent: names,
/// UIDs and revisions never have any.
[[nodiscard]] std::optional<ObjectFacts> object_facts(std::string_view object);
/// Of the object in a row of a Table.
[[nodiscard]] std::optional<ObjectFacts> row_facts(std::string_view row);
/// nullopt: not a watch event. Errors and bookmarks may lack metadata.
[[nodiscard]] std::optional<EventFacts> event_facts(std::string_view event);

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
