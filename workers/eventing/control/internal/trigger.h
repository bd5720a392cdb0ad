#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "krm/json.h"
#include "workers/eventing/control/internal/owned_group.h"

namespace kintsugi::workers {

// Triggers of Knative and their Brokers, which are read and never written. Threads: any.

extern const Resource kTriggers, kBrokers;
inline constexpr std::string_view kTriggerFinalizer = "kafka.triggers.eventing.knative.dev";
/// `ordered` or `unordered`, of a Trigger.
inline constexpr std::string_view kDeliveryOrderAnnotation =
    "kafka.eventing.knative.dev/delivery.order";

/// owner_projection() with the indexes of a Trigger: 1: seen_key() of its Broker; 2: the id of
/// Kafka's group that it has, or would have by its name.
[[nodiscard]] Projection<CachedOwner> trigger_projection();

/// What Triggers need of a Broker.
struct CachedBroker {
  std::string of_class;                  ///< annotation eventing.knative.dev/broker.class
  std::string topic, bootstrap, secret;  ///< of status.annotations
  std::string ready, reason, message;    ///< of its condition Ready; "": it has none
  bool deleting = false;
  KeptJson delivery;  ///< of its spec; null: none
};
[[nodiscard]] Projection<CachedBroker> broker_projection();

/// Whose a Broker is.
enum class BrokerOwner : std::uint8_t { kOurs, kMissing, kUnclassed, kOthers };
[[nodiscard]] BrokerOwner broker_owner(const CachedBroker* broker) noexcept;
/// The condition BrokerReady of a Trigger with that Broker.
/// @param broker  nullptr: there is none. @param name  of it
[[nodiscard]] Condition broker_condition(const CachedBroker* broker, std::string_view name,
                                         std::int64_t generation);

/// What the annotations of a Trigger ask for.
struct TriggerWish {
  std::int64_t replicas = 1;
  std::string policy, ordering;
  std::string_view reason;  ///< not "": one cannot be read
  std::string message;      ///< names its key
};
/// What cannot be read stays as the group has it. Source: KN-3, KD-6.
/// @param group  nullptr: there is none; then it is 1 and unordered
[[nodiscard]] TriggerWish trigger_wish(const krm::Json& trigger, const krm::Json* group);

/// `spec.delivery` of the Trigger, else of the Broker; null: neither has it.
[[nodiscard]] krm::Json delivery_of_trigger(const krm::Json& trigger, const CachedBroker* broker);

/// The ConsumerGroup of a Trigger, owned_group(). @param broker  is ready
[[nodiscard]] krm::Json group_of_trigger(std::string_view ns, std::string_view name,
                                         const krm::Json& trigger, const CachedBroker& broker,
                                         const TriggerWish& wish, std::string_view group_id);

/// It has the annotation knative.dev/dependency.
[[nodiscard]] bool has_dependency(const krm::Json& trigger) noexcept;

/// What the status of a Trigger is to say.
struct TriggerReport {
  std::int64_t generation = 0;
  Condition broker;
  std::string_view fault;     ///< TriggerWish::reason
  std::string fault_message;  ///< and its message
  bool has_dead_letter_sink = false, has_dependency = false;
  const CachedGroup* group = nullptr;
  std::string_view group_id;  ///< "": what is stored stays
};
/// Sets the Placeable (KN-4, KN-5) and the id of Kafka's group in `annotations`, the sinks, and the
/// conditions that Knative has. @param now  RFC 3339
void set_trigger_status(krm::Json& status, const TriggerReport& report, std::string_view now);

}  // namespace kintsugi::workers
