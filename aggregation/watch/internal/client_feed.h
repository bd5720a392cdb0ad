#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "aggregation/asking/asking.h"
#include "aggregation/bytes/watch_text.h"
#include "aggregation/position/cursor.h"
#include "aggregation/watch/group_log.h"
#include "aggregation/watch/internal/watch_parts.h"
#include "aggregation/watch/watch_group.h"
#include "http/handler.h"
#include "serving/watch_list.h"

namespace kintsugi::aggregation {

/// What one client of a merged watch is sent, and how far it is then: the log of its group from a
/// place of its own on, referenced and not copied, and what is made for it alone. Knows no reason
/// and no end (MergedWatchFsm). Lifetime: its group's at most. Threads: the group's loop.
class ClientFeed {
 public:
  ClientFeed(Asking& asking, http::ResponseStream& down, WatchGroup& group) noexcept
      : down_(down), group_(group), asking_(asking) {}

  /// @{ The log.
  enum class Read : std::uint8_t {
    kNothing,
    kMoved,     ///< events were sent
    kLevelled,  ///< components have moved without any
    kTooLittle  ///< the client is too far behind; components may have moved
  };
  /// Everything that the client can take now. @param doomed  see resumable()
  [[nodiscard]] Read read(WatchParts& parts, bool doomed);
  /// A part reads the log from now on. Events that lie behind the reader's place are sent now.
  /// @param has_head  false: they are read again later
  void catch_up(WatchParts& parts, WatchPart& part, bool has_head, bool doomed);
  /// Nothing of the log so far is for the client.
  void skip_log() noexcept { next_ = group_.log().end(); }
  /// The client has not read everything that is there.
  [[nodiscard]] bool is_behind() const noexcept { return next_ < group_.log().end(); }
  /// It has not read what no position tells: it cannot come back for that.
  [[nodiscard]] bool lacks_repeats() const noexcept {
    return next_ < group_.log().repeats_until();
  }  /// @}

  /// @{ Where the client is.
  /// Every part of it reads the log.
  [[nodiscard]] static bool reads_log_only(const WatchParts& parts) noexcept;
  /// For who comes back with an event's own version: nowhere if the client is `doomed`, as it has
  /// objects that no component tells.
  [[nodiscard]] Components resumable(const WatchParts& parts, bool doomed) const;  /// @}

  /// @{ Made for this client alone; kept until flush().
  /// An event of a stream of its own, without its separator.
  void add_event(const EventFacts& facts, std::string_view event);
  void add(std::string_view text) { own_ += text; }
  /// Where the client is. @param initial_end  it ends the present objects (AGG-802)
  void add_bookmark(const WatchParts& parts, bool initial_end);
  void flush();
  /// The end of the stream, with what was not flushed. @param text  of take_rest()
  void end(std::string_view text) {
    sent_ += text.size();
    down_.send_data(text, true);
  }
  [[nodiscard]] std::string take_rest();  /// @}

  /// Bytes that the client has still to be given.
  [[nodiscard]] GroupReader::Queued queued() const noexcept;
  /// Fills everything but age and queue.
  void describe(serving::WatchRow& row) const;
  /// It takes more.
  [[nodiscard]] bool has_room() const noexcept {
    return down_.unsent_bytes() < asking_.params.private_high;
  }
  /// What the next event needs is fetched.
  void approach() const noexcept;

 private:
  template <class Bytes>
  void put(Bytes&& bytes) noexcept {
    sent_ += bytes.size();
    down_.send_data(std::forward<Bytes>(bytes), false);
  }
  /// Whoever reads the log has all of it. @returns whether somebody has moved
  bool level_up(WatchParts& parts) const noexcept;
  /// Its parts are where their streams are.
  [[nodiscard]] bool is_level(const WatchParts& parts) const noexcept;
  [[nodiscard]] Components components(const WatchParts& parts) const;
  void deliver(WatchParts& parts, WatchPart& part, GroupLog::Index index, bool doomed);
  /// The first event of a Table stream has the columns, whoever was sent them first.
  [[nodiscard]] bool columns_needed(std::string_view columns) const noexcept {
    return !columns_sent_ && columns.empty() && group_.kind().is_table() &&
           !group_.columns().empty();
  }

  http::ResponseStream& down_;
  WatchGroup& group_;
  Asking& asking_;
  GroupLog::Index next_ = 0;
  std::uint64_t sent_ = 0;  // passed on to the connection
  bool columns_sent_ = false;
  bool caught_up_ = false;  // it has been at the end of the log
  std::string own_;         // no memory when empty
};

}  // namespace kintsugi::aggregation
