#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "http/handler.h"
#include "krm/request_target.h"
#include "net/body_gate.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "proxy/forwarding/move_holds.h"
#include "proxy/forwarding/request_tally.h"
#include "serving/fair_seats.h"
#include "serving/refusals.h"

/// A request that is forwarded, and what it counts as. Private to proxy/forwarding/.
namespace kintsugi::proxy {

/// Bodies up to this size are sent when they are whole.
inline constexpr std::size_t kAwaited = 64U << 10;
/// Servers refuse what is longer before they read it.
inline constexpr std::size_t kUnread = 3U << 20;

inline net::UpstreamClass class_of(std::string_view method, bool watch) {
  if (watch) {
    return net::UpstreamClass::kWatch;
  }
  return method == "GET" || method == "HEAD" || method == "OPTIONS" ? net::UpstreamClass::kRead
                                                                    : net::UpstreamClass::kWrite;
}

/// Whether it does no harm to ask twice: reads, and reviews, whose answer is all they do.
inline bool is_repeatable(std::string_view method, std::string_view target) {
  if (method != "POST") {
    return method == "GET" || method == "HEAD" || method == "OPTIONS";
  }
  if (target.find("reviews") == std::string_view::npos) {
    return false;
  }
  const krm::RequestTarget parsed = krm::parse_target(method, target);
  if (parsed.fault != krm::TargetFault::kNone) {
    return false;
  }
  const krm::RequestInfo info = krm::request_info_of(method, target, parsed);
  return info.verb == "create" && info.resource.ends_with("reviews") && info.subresource.empty() &&
         (info.group == "authorization.k8s.io" || info.group == "authentication.k8s.io");
}

/// A request that ends like this has not reached the server.
constexpr bool is_untouched(Errc cause) noexcept {
  return cause == Errc::kNotProcessed || cause == Errc::kRefused || cause == Errc::kUnreachable ||
         cause == Errc::kOverloaded || cause == Errc::kTls;
}

/// It may have, and its connection or stream is gone.
constexpr bool is_lost(Errc cause) noexcept {
  return cause == Errc::kReset || cause == Errc::kClosed;
}

/// For so long it may come to the same server again.
constexpr Duration kRetryWindow = seconds(5);

/// Whether a request that ends like this, before its answer began, is sent again.
/// @param elsewhere  another process of the shard may answer. Who does not answer any more may have
/// kept it for longer than the window is, or given it up when the shard was not there any more.
constexpr bool may_repeat(Errc cause, bool idempotent, bool has_shard, bool elsewhere,
                          Duration passed) noexcept {
  const bool lost = idempotent && is_lost(cause);
  const bool given_up = idempotent && cause == Errc::kCancelled && has_shard;
  if (given_up || (elsewhere && (lost || is_untouched(cause)))) {
    return true;
  }
  return (lost || cause == Errc::kNotProcessed || cause == Errc::kDeadline) &&
         passed < kRetryWindow;
}

/// What only matters until the response head is there: kept apart, so that a running watch does not
/// carry it.
struct Pending {
  http::RequestHead head;
  std::string prefix;  // of the shard's base URL, in front of head.target
  bool bodiless = head.end_stream;
  std::string replay;  // body so far, while it may be sent again
  bool replayable = true;
  bool body_ended = head.end_stream;
  std::size_t body_bytes = 0;
  std::uint8_t attempts = 0;
  TimePoint first_attempt;
  bool awaits = false;                  // the body is not whole, and nothing has been sent
  std::unique_ptr<net::BodyHold> hold;  // of a body that is not whole
  serving::Seat seat;                   // at the shard
  std::unique_ptr<serving::Refusals::Later> refusal;
  std::unique_ptr<MoveHolds::Hold> held;  // while its logical cluster moves
  bool waits = false;                     // for it: the client gets no credit
  TimePoint waits_since;
  std::size_t owed = 0;    // credit for bytes that have come meanwhile
  std::size_t unsent = 0;  // bytes that it has kept for its turn
  net::Timer timer;
  std::function<void()> unreachable;
  Pending(net::Loop& loop, http::RequestHead&& asked)
      : head(std::move(asked)), first_attempt(loop.now()), timer(loop) {}
};

/// How long the body is said to be; 0: nobody knows.
inline std::uint64_t announced(const http::RequestHead& head) {
  return parse_decimal(head.headers.get("content-length")).value_or(0);
}

inline RequestTally::Kind kind_of(const http::RequestHead& head, bool is_watch) noexcept {
  return is_watch && head.method == "GET"     ? RequestTally::Kind::kWatch
         : is_watch || !head.protocol.empty() ? RequestTally::Kind::kUpgrade
                                              : RequestTally::Kind::kPlain;
}

}  // namespace kintsugi::proxy
