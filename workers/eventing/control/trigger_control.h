#pragma once

#include <string_view>

#include "workers/eventing/control/internal/owner_control.h"
#include "workers/eventing/control/internal/trigger.h"
#include "workers/eventing/model/group_id.h"

namespace kintsugi::workers {

/// Keeps the ConsumerGroup of each Trigger whose Broker is one of Kafka, and tells the Trigger what
/// became of it: KN-1, KN-3, KN-4, KN-5, KD-6. The id of Kafka's group is in the status before the
/// group is made. While the Broker is not there or not ready the group stays as it is. A Trigger of
/// another Broker is let alone. Threads: the unit's loop's.
class TriggerControl final : public OwnerControl {
 public:
  explicit TriggerControl(EventingSite& site);

 private:
  [[nodiscard]] GroupWrite next(const Turn& turn) override;
  [[nodiscard]] GroupWrite store_id(const Turn& turn, const krm::Json& want, bool collided) const;
  [[nodiscard]] GroupId choose_id(const Turn& turn, const CachedBroker& broker) const;
  [[nodiscard]] bool is_taken(const Turn& turn, const CachedBroker& broker, std::string_view stored,
                              std::string_view id) const;
  [[nodiscard]] const CachedBroker* broker_of(std::string_view cluster, std::string_view ns,
                                              const CachedOwner& trigger) const;
  void broker_changed(const CacheChange& change);

  CacheUse<CachedBroker> brokers_;
};

}  // namespace kintsugi::workers
