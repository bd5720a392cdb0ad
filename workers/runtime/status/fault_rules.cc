#include "workers/runtime/status/fault_rules.h"

#include <algorithm>

namespace kintsugi::workers {
namespace {

FaultRule error(Reaction reaction) noexcept { return {reaction, {}, true}; }

/// Nobody knows whether it was executed.
FaultRule unknown_outcome(RequestKind kind) noexcept {
  return error(kind == RequestKind::kCreate || kind == RequestKind::kAppend ? Reaction::kReadBack
                                                                            : Reaction::kBackOff);
}

FaultRule no_answer(const Answer& answer) noexcept {
  switch (answer.cause) {
    case Errc::kRefused:
    case Errc::kUnreachable:
    case Errc::kNotProcessed:
    case Errc::kTls:
    case Errc::kOverloaded:
    case Errc::kConfig:
      return error(Reaction::kBackOff);  // never executed
    default:
      return unknown_outcome(answer.kind);
  }
}

FaultRule not_found(RequestKind kind) noexcept {
  switch (kind) {
    case RequestKind::kDelete:
      return {};  // which is what was wanted
    case RequestKind::kCreate:
      return error(Reaction::kBackOff);  // its namespace or type is missing
    default:
      return {Reaction::kForget, {}, false};
  }
}

FaultRule told_to_wait(const Answer& answer, double jitter) noexcept {
  const Duration told = std::clamp(answer.retry_after, Duration::zero(), kLongestRetryAfter);
  const double share = std::clamp(jitter, 0.0, 1.0) * 0.2;
  const auto more = static_cast<Duration::rep>(static_cast<double>(told.count()) * share);
  return {Reaction::kWait, told + Duration(more), answer.in_a_row + 1 >= kQuietRetryAfters};
}

}  // namespace

const char* reaction_name(Reaction reaction) noexcept {
  constexpr const char* kNames[] = {
      "ok",           "again-at-once", "back-off", "wait",   "read-back", "reload-credential",
      "unauthorized", "forbidden",     "forget",   "relist", "terminal"};
  return kNames[static_cast<std::size_t>(reaction)];
}

FaultRule fault_rule(const Answer& answer, double jitter) noexcept {
  const int status = answer.http_status;
  if (status == 0) {
    return answer.cause == Errc::kOk ? FaultRule{} : no_answer(answer);
  }
  if (status >= 200 && status < 300) {
    return {};
  }
  switch (status) {
    case 401:
      return answer.in_a_row == 0 ? FaultRule{Reaction::kReloadCredential, {}, false}
                                  : FaultRule{Reaction::kUnauthorized, kUnauthorizedRetry, true};
    case 403:
      return error(Reaction::kForbidden);
    case 404:
      return not_found(answer.kind);
    case 409:
      return answer.in_a_row == 0 ? FaultRule{Reaction::kAgainAtOnce, {}, false}
                                  : error(Reaction::kBackOff);
    case 410:
      return error(answer.kind == RequestKind::kRead ? Reaction::kRelist : Reaction::kBackOff);
    case 413:
    case 422:
      return error(Reaction::kTerminal);
    case 429:
    case 503:
      return answer.has_retry_after ? told_to_wait(answer, jitter) : error(Reaction::kBackOff);
    case 500:
    case 502:
    case 504:
      return unknown_outcome(answer.kind);
    default:
      return error(Reaction::kBackOff);
  }
}

}  // namespace kintsugi::workers
