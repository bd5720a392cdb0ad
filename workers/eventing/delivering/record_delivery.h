#pragma once

#include <cstdint>

#include "base/time.h"
#include "workers/eventing/contract/contract.h"

/// What becomes of one record, and of the records of one partition. State machines without I/O.
/// Source: docs/spec/eventing.md, DP-4, DP-7.
namespace kintsugi::workers {

/// How often and when an event goes to one place.
struct RetryPlan {
  std::uint32_t retry = 0;  ///< tries besides the first
  BackoffPolicy policy = BackoffPolicy::kExponential;
  Duration delay{};
  Duration timeout = seconds(30);  ///< of a try
  bool has_dead_letter = false;

  static constexpr Duration kMaxDelay = seconds(600);
  /// @param otherwise  timeout of a config that has none
  [[nodiscard]] static RetryPlan of(const EgressConfig& config, Duration otherwise);
  /// Before the try after try `tried`, which counts from 0: delay × 2^tried, or × (tried + 1); at
  /// most kMaxDelay.
  [[nodiscard]] Duration delay_after(std::uint32_t tried) const noexcept;
};

enum class DeliveryTarget : std::uint8_t { kDestination, kReply, kDeadLetter };
enum class DeliveryOutcome : std::uint8_t {
  kFiltered,      ///< no egress' filter let it pass
  kDelivered,     ///< and so was what came back
  kDeadLettered,  ///< the dead letter sink has taken it
  kSkipped        ///< nobody has
};

struct DeliveryAction {
  enum class Kind : std::uint8_t { kSend, kWait, kDone };
  Kind kind = Kind::kDone;
  DeliveryTarget target = DeliveryTarget::kDestination;  ///< kSend
  Duration wait{};                                       ///< kWait
  DeliveryOutcome outcome = DeliveryOutcome::kDelivered;
  bool operator==(const DeliveryAction&) const = default;
};

/// One record: destination, what it answers with to where replies go, and the dead letter sink when
/// either fails for good. Each place has all its tries. One action is under way at a time.
class RecordDelivery {
 public:
  explicit RecordDelivery(const RetryPlan& plan) noexcept : plan_(plan) {}
  [[nodiscard]] DeliveryAction begin(bool passes_filter) noexcept;
  /// A kSend has ended. @param reply  the destination has answered with an event that has somewhere
  /// to go
  [[nodiscard]] DeliveryAction on_sent(bool success, bool reply) noexcept;
  /// A kWait has.
  [[nodiscard]] DeliveryAction on_waited() const noexcept { return send(); }
  [[nodiscard]] DeliveryTarget target() const noexcept { return target_; }
  [[nodiscard]] std::uint32_t tries() const noexcept { return tries_; }

 private:
  [[nodiscard]] DeliveryAction send() const noexcept {
    return {.kind = DeliveryAction::Kind::kSend, .target = target_};
  }
  [[nodiscard]] DeliveryAction go_to(DeliveryTarget target) noexcept;

  RetryPlan plan_;
  DeliveryTarget target_ = DeliveryTarget::kDestination;
  std::uint32_t tries_ = 0;  // of this target that have failed
};

}  // namespace kintsugi::workers
