#include "workers/runtime/control/outcome_of.h"

namespace kintsugi::workers {

Outcome outcome_of(const ApiAnswer& answer, RequestKind kind) noexcept {
  if (answer.status == 0 && answer.cause == Errc::kCancelled) {
    return Outcome::terminal();
  }
  if (answer.is(404) && !answer.says_missing()) {
    return Outcome::error();
  }
  Answer asked;
  asked.http_status = answer.status;
  asked.cause = answer.cause;
  asked.has_retry_after = answer.retry_after > Duration{};
  asked.retry_after = answer.retry_after;
  asked.kind = kind;
  const FaultRule rule = fault_rule(asked, 0.5);
  switch (rule.reaction) {
    case Reaction::kOk:
    case Reaction::kForget:
      return Outcome::done();
    case Reaction::kAgainAtOnce:
    case Reaction::kReloadCredential:
      return Outcome::requeue_after({});
    case Reaction::kWait:
    case Reaction::kUnauthorized:
      return Outcome::requeue_after(rule.wait);
    case Reaction::kTerminal:
      return Outcome::terminal();
    case Reaction::kBackOff:
    case Reaction::kReadBack:
    case Reaction::kForbidden:
    case Reaction::kRelist:
      break;
  }
  return Outcome::error();
}

}  // namespace kintsugi::workers
