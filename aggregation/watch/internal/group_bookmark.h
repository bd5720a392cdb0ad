#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "aggregation/asking/shard_question.h"
#include "aggregation/bytes/watch_coding.h"
#include "aggregation/list/list_probe.h"
#include "aggregation/position/cursor.h"
#include "aggregation/watch/internal/group_readers.h"
#include "aggregation/watch/internal/group_streams.h"
#include "base/alive.h"
#include "base/bytes.h"

namespace kintsugi::aggregation {

/// What the objects of a group's shards are, as far as an answer or an event has told, and the
/// bookmark that is made of it for readers who have everything (AGG-704). Threads: its loop.
class GroupBookmark {
 public:
  /// All of these outlive it.
  GroupBookmark(Asking& shared, ShardQuestion& question, GroupStreams& streams,
                GroupReaders& readers);
  GroupBookmark(const GroupBookmark&) = delete;
  GroupBookmark& operator=(const GroupBookmark&) = delete;

  /// What clients get. Decided now if no shard has answered yet.
  [[nodiscard]] const WatchCoding& coding() noexcept;
  /// Raw columnDefinitions of a Table stream; "": none were seen.
  [[nodiscard]] const std::string& columns() const noexcept { return columns_; }
  void learn(const ObjectFacts& facts, std::string_view columns) {
    if (!question_.shape.kind.known() || (columns_.empty() && !columns.empty())) {
      take(facts, columns);
    }
  }
  /// Asks a shard what the objects are, unless it is known or being asked: streams that begin at a
  /// cursor may stay without any event, and need bookmarks with a kind.
  void find_kind();
  /// Where the streams are. Only if the kind is known.
  [[nodiscard]] const SharedBytes& text(const CursorCodec& codec);
  /// Positions have moved.
  void forget() noexcept { text_ = {}; }

 private:
  void take(const ObjectFacts& facts, std::string_view columns);

  Asking& shared_;
  ShardQuestion& question_;
  GroupStreams& streams_;
  GroupReaders& readers_;
  std::unique_ptr<ListProbe> kind_probe_;
  std::string columns_;
  SharedBytes text_;  // empty: positions have moved since it was made
  std::string cursor_;
  Alive alive_;
};

}  // namespace kintsugi::aggregation
