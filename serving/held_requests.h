#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>

#include "base/alive.h"
#include "http/handler.h"
#include "net/loop.h"
#include "serving/waiting_request.h"

namespace kintsugi::serving {

/// Requests that came a moment before what they ask about is known here: each waits until that has
/// changed, and not for ever. At most 1,000 of them. Threads: its loop.
class HeldRequests {
 public:
  using Answer = std::unique_ptr<http::RequestHandler>;
  /// @param longest zero: nothing waits.
  HeldRequests(net::Loop& loop, Duration longest) : loop_(loop), longest_(longest) {}
  HeldRequests(const HeldRequests&) = delete;
  HeldRequests& operator=(const HeldRequests&) = delete;

  /// False when so many wait that the next is better refused at once.
  [[nodiscard]] bool has_room() const noexcept;
  /// Calls `then`, once, in the first look() at which it `is_early` no more, after `longest` at the
  /// latest; never when the stream is gone by then.
  [[nodiscard]] Answer hold(std::function<bool()> is_early, std::function<Answer()> then);
  /// What requests wait for may have come.
  void look();

 private:
  struct Held {
    std::function<bool()> is_early;
    std::shared_ptr<WaitingRequest*> request;
    std::function<Answer()> then;
  };
  static void go_on(Held& held);

  net::Loop& loop_;
  Duration longest_;
  std::list<std::shared_ptr<Held>> held_;
  Alive alive_;
};

}  // namespace kintsugi::serving
