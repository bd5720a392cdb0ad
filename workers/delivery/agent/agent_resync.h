#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "net/loop.h"
#include "workers/delivery/protocol/resync_message.h"

namespace kintsugi::workers {

/// How an agent compares what it has with its hub: says what orders it has when a session is new
/// and every hour, and tells statuses again that the hub has otherwise. Source: CM-50, CM-51.
/// Threads: its loop's. Lifetime: no hook may destroy it.
class AgentResync {
 public:
  struct Hooks {
    std::function<std::vector<ResyncItem>()> orders;
    /// A batch of the list of orders, to the hub.
    std::function<void(const std::string& batch)> send;
    /// What the hub has is not what was told last.
    std::function<void(const std::string& uid)> tell_again;
    /// The statuses that were told last, of what came by a prefix: uid and hash.
    std::function<std::vector<ResyncItem>(std::string_view prefix)> statuses;
  };
  AgentResync(net::Loop& loop, Hooks hooks);

  /// The subscription of a new session stands: the list goes out when nothing has come for a
  /// second, so that what is retained is in it.
  void begin();
  /// A message came.
  void heard();
  /// The connection is gone; the hour goes on.
  void stop();
  /// A message at kResyncLevel. @error kBadRequest: it is none, and means nothing
  [[nodiscard]] Expected<void> take(std::string_view payload, std::string_view prefix);

 private:
  void arm(Duration wait);
  void send_orders();
  void compare(const std::vector<ResyncItem>& has, std::string_view prefix);
  void tell_some();

  net::Loop& loop_;
  const Hooks hooks_;
  net::Timer send_, tell_;
  TimePoint latest_{};
  bool waiting_ = false;
  ResyncList list_;
  std::deque<std::string> again_;
};

}  // namespace kintsugi::workers
