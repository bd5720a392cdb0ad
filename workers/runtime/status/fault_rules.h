#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/time.h"

namespace kintsugi::workers {

/// What a request was for.
enum class RequestKind : std::uint8_t {
  kRead,    ///< get, list, watch
  kCreate,  ///< no write that may be repeated blindly
  kUpdate,  ///< put, patch with a precondition, delete: a repetition does no harm
  kAppend,  ///< a write to an object that exists, which must not happen twice
  kDelete,
};

/// How a request ended.
struct Answer {
  int http_status = 0;     ///< 0: there was no answer, `cause` tells why
  Errc cause = Errc::kOk;  ///< of no answer: kDeadline, kReset, kRefused …
  bool has_retry_after = false;
  Duration retry_after{};
  RequestKind kind = RequestKind::kRead;
  /// How often this object's requests ended so in a row before: with 409 (conflicts), 401, or 429
  /// and 503 with Retry-After.
  int in_a_row = 0;
};

/// What it means for a reconcile (docs/spec/worker-runtime.md section 13).
enum class Reaction : std::uint8_t {
  kOk,
  kAgainAtOnce,       ///< read again, compute again, send again; not the same bytes
  kBackOff,           ///< an error of this run: RT-42
  kWait,              ///< again after `wait`, whatever the back-off says
  kReadBack,          ///< the outcome is unknown: look before the write is repeated, then back off
  kReloadCredential,  ///< once, then again at once
  kUnauthorized,      ///< unit NotReady/Unauthorized, again after `wait`
  kForbidden,         ///< condition Forbidden on the object, and RT-42, whose cap is 300 s
  kForget,            ///< the object is gone: drop its state, finalise from the journal
  kRelist,            ///< RT-24
  kTerminal,          ///< event with the server's text; not again until the object changes
};
[[nodiscard]] const char* reaction_name(Reaction reaction) noexcept;

struct FaultRule {
  Reaction reaction = Reaction::kOk;
  Duration wait{};
  bool counts_as_error = false;  ///< in controller_runtime_reconcile_errors_total
  bool operator==(const FaultRule&) const = default;
};

/// The row of section 13 that an answer falls into. What stands in no row backs off as an error.
/// @param jitter  in [0, 1): share of the 20 % that a Retry-After is lengthened by at most.
[[nodiscard]] FaultRule fault_rule(const Answer& answer, double jitter) noexcept;

inline constexpr Duration kUnauthorizedRetry = seconds(30);
inline constexpr int kQuietRetryAfters = 5;  ///< from the 5th in a row on it is an error
inline constexpr Duration kLongestRetryAfter = std::chrono::hours(24);

}  // namespace kintsugi::workers
