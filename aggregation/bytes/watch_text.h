#pragma once

#include <string>
#include <string_view>

#include "aggregation/bytes/json_split.h"
#include "base/error.h"

/// The events of merged watches that no shard has sent (AGG-512, AGG-1301).
namespace kintsugi::aggregation {

/// What the objects of a stream are.
struct StreamKind {
  std::string kind, api_version;  ///< "" until an event or bookmark has told
  std::size_t cells = 1;          ///< of a Table's rows, as far as columns have told
  [[nodiscard]] bool known() const noexcept { return !kind.empty(); }
  [[nodiscard]] bool is_table() const noexcept { return kind == "Table"; }
};

/// A BOOKMARK event with its newline. @param columns  of a Table whose columns have not been sent:
/// raw columnDefinitions, else "".
[[nodiscard]] std::string bookmark_event(const StreamKind& kind, std::string_view cursor,
                                         bool initial_end, std::string_view columns);
/// An ERROR event with its newline.
[[nodiscard]] std::string error_event(const Error& error);
/// The event with "columnDefinitions":null, as every event but a stream's first has it.
[[nodiscard]] std::string without_columns(std::string_view event, std::string_view columns);
/// The event, which may have its line end, with these columnDefinitions instead of null.
[[nodiscard]] std::string with_columns(std::string_view event, std::string_view columns);

/// How many columnDefinitions there are in a raw array.
[[nodiscard]] std::size_t count_columns(std::string_view columns) noexcept;
/// An event, without a newline, of a Table with this one row. @param columns  raw
/// columnDefinitions; "": null
[[nodiscard]] std::string row_event(std::string_view type, std::string_view api_version,
                                    std::uint64_t revision, std::string_view columns,
                                    std::string_view row);
/// An event, without a newline, of an item of a list, which has no kind when its list is typed. Of
/// a stream of Tables: of a row.
[[nodiscard]] std::string item_event(std::string_view type, const StreamKind& kind,
                                     const ObjectFacts& facts, std::string_view item);
/// A DELETED event, without a newline, of an object of which only this is known. @param kept  more
/// members of its metadata, each with a comma before it. Of a stream of Tables: a row that has its
/// name in the first cell and its metadata.
[[nodiscard]] std::string deleted_event(const StreamKind& kind, const ObjectFacts& facts,
                                        std::uint64_t revision, std::string_view kept);

/// Where one shard's part of a watch begins: the query of its request.
struct WatchStart {
  std::uint64_t revision = 0;   ///< 0: none
  bool initial_events = false;  ///< the present objects first, then a bookmark at their end
  bool any_state = false;       ///< RV=0: initial events may be old
  bool recent = false;          ///< neither: whatever happens from now on
};
[[nodiscard]] std::string watch_query(const WatchStart& start, std::string_view passed_on);

}  // namespace kintsugi::aggregation
