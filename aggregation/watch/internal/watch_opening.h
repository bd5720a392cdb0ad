#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aggregation/position/cursor.h"
#include "aggregation/watch/internal/client_feed.h"
#include "aggregation/watch/internal/member_watch.h"
#include "aggregation/watch/internal/watch_parts.h"
#include "aggregation/watch/watch_group.h"
#include "aggregation/watch/watches.h"
#include "base/alive.h"
#include "base/error.h"
#include "net/loop.h"
#include "serving/answer.h"

namespace kintsugi::aggregation {

/// What a merged watch needs until its head is sent. Threads: its loop.
class WatchOpening {
 public:
  WatchOpening(serving::AnswerForm form, net::Loop& loop)
      : form_(std::move(form)), headers_(loop) {}

  [[nodiscard]] const serving::AnswerForm& form() const noexcept { return form_; }
  /// Runs out when the head is late.
  [[nodiscard]] net::Timer& headers() noexcept { return headers_; }
  /// Where a watch begins that asks for this resourceVersion, or why it does not.
  struct Beginning {
    DecodedVersion at;
    std::optional<Error> refusal;
    /// Not "": the client has to list again; label of kintsugi_cursor_expired_total.
    std::string_view lost = {};
  };
  /// @param initial  present objects are asked for. @param then  runs at once, or later where other
  /// loops have to be asked who was given an event (AGG-519), and never after stop()
  void find_beginning(Watches& watches, WatchGroup& group, const std::string& resource_version,
                      bool initial, std::function<void(const Beginning&)> then);
  void stop() noexcept;

 private:
  void find_place(Watches& watches, WatchGroup& group, std::uint64_t revision,
                  const std::vector<bool>& flags, std::function<void(const Beginning&)> then);

  serving::AnswerForm form_;
  std::optional<Alive> asked_;  // while something asked of other loops may come back
  net::Timer headers_;
};

/// Gives each shard that is needed its part, which reads the log of the group or gets a stream of
/// its own that is not open yet.
/// @param at  of find_beginning(). @param initial_events  sendInitialEvents. @param audit  for logs
void place_parts(const DecodedVersion& at, std::optional<bool> initial_events, WatchGroup& group,
                 WatchParts& parts, ClientFeed& feed, MemberWatch::Sink& sink,
                 std::string_view audit);

}  // namespace kintsugi::aggregation
