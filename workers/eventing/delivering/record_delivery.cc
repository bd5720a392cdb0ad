#include "workers/eventing/delivering/record_delivery.h"

#include <algorithm>

namespace kintsugi::workers {
namespace {

Duration bounded_milliseconds(std::uint64_t value) {
  constexpr std::uint64_t kMost = 24ULL * 3'600'000;
  return milliseconds(static_cast<std::int64_t>(std::min(value, kMost)));
}

}  // namespace

RetryPlan RetryPlan::of(const EgressConfig& config, Duration otherwise) {
  RetryPlan out;
  out.retry = config.retry;
  out.policy = config.backoff_policy;
  out.delay = bounded_milliseconds(config.backoff_delay);
  out.timeout = config.timeout == 0 ? otherwise : bounded_milliseconds(config.timeout);
  out.has_dead_letter = !config.dead_letter.empty();
  return out;
}

Duration RetryPlan::delay_after(std::uint32_t tried) const noexcept {
  if (delay <= Duration::zero()) {
    return {};
  }
  const std::int64_t most = kMaxDelay / delay;  // more would be cut off
  const std::int64_t factor = policy == BackoffPolicy::kLinear ? std::int64_t{tried} + 1
                              : tried < 62                     ? std::int64_t{1} << tried
                                                               : most + 1;
  return factor > most ? kMaxDelay : delay * factor;
}

DeliveryAction RecordDelivery::begin(bool passes_filter) noexcept {
  return passes_filter ? send()
                       : DeliveryAction{.kind = DeliveryAction::Kind::kDone,
                                        .outcome = DeliveryOutcome::kFiltered};
}

DeliveryAction RecordDelivery::go_to(DeliveryTarget target) noexcept {
  target_ = target;
  tries_ = 0;
  return send();
}

DeliveryAction RecordDelivery::on_sent(bool success, bool reply) noexcept {
  const auto done = [](DeliveryOutcome outcome) {
    return DeliveryAction{.kind = DeliveryAction::Kind::kDone, .outcome = outcome};
  };
  if (success) {
    if (target_ == DeliveryTarget::kDestination && reply) {
      return go_to(DeliveryTarget::kReply);
    }
    return done(target_ == DeliveryTarget::kDeadLetter ? DeliveryOutcome::kDeadLettered
                                                       : DeliveryOutcome::kDelivered);
  }
  if (tries_ < plan_.retry) {
    return {.kind = DeliveryAction::Kind::kWait, .wait = plan_.delay_after(tries_++)};
  }
  if (target_ != DeliveryTarget::kDeadLetter && plan_.has_dead_letter) {
    return go_to(DeliveryTarget::kDeadLetter);
  }
  return done(DeliveryOutcome::kSkipped);
}

}  // namespace kintsugi::workers
