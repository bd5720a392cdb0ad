#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

/// Taking JSON apart into spans of bytes, without parsing it (AGG-1401, PERF-233): where values
/// end, the events of a watch stream as they arrive, and the few fields of an object that a merge
/// needs. Only braces, brackets and strings are looked at; what is between them is somebody else's
/// to check.
namespace kintsugi::aggregation {

/// Follows one JSON object or array across pieces of bytes. 64 bytes at a time; a block that cannot
/// hold the end costs a few instructions whatever is in it.
class ValueScan {
 public:
  /// How many bytes of `text` belong to the value; all of them unless done() holds afterwards. The
  /// first byte that is ever fed has to be the opening one.
  [[nodiscard]] std::size_t feed(std::string_view text) noexcept;
  [[nodiscard]] bool done() const noexcept { return begun_ && depth_ == 0; }
  /// Inside the value.
  [[nodiscard]] bool running() const noexcept { return begun_ && depth_ > 0; }
  void reset() noexcept { *this = ValueScan(); }

 private:
  std::uint64_t depth_ = 0;
  bool begun_ = false;
  bool in_string_ = false;
  bool escaped_ = false;  // the next byte is taken literally
};

/// End of the value that begins at text[begin] (any kind of value; npos: it does not end in text).
[[nodiscard]] std::size_t value_end(std::string_view text, std::size_t begin) noexcept;

/// Goes through the members of an object that is complete in `text`. Keys and values are spans of
/// it, values without surrounding space.
class MemberWalk {
 public:
  /// @param object  from '{' to '}'.
  explicit MemberWalk(std::string_view object) noexcept;
  struct Member {
    std::string_view key;    ///< between the quotes, as it stands there
    std::string_view value;  ///< raw
  };
  /// nullopt at the end, and where the text is no object (broken() tells).
  [[nodiscard]] std::optional<Member> next() noexcept;
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  void skip_space() noexcept;
  std::optional<Member> stop(bool broken) noexcept;

  std::string_view text_;
  std::size_t at_ = 0;
  bool first_ = true;
  bool broken_ = false;
};

/// Whether a raw key means `name`; escapes are understood.
[[nodiscard]] bool key_is(std::string_view raw_key, std::string_view name);
/// The text of a raw JSON string value with its quotes; nullopt when it is none.
[[nodiscard]] std::optional<std::string> string_value(std::string_view raw);
/// The same without a copy where the string has no escapes; nullopt then, or when it is none.
[[nodiscard]] std::optional<std::string_view> plain_string(std::string_view raw) noexcept;

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

/// Labels and ownerReferences of a raw metadata, each with a comma before it: what is kept of an
/// object for the event of its end.
[[nodiscard]] std::string kept_members(std::string_view metadata);

}  // namespace kintsugi::aggregation
