#pragma once

#include <functional>
#include <map>
#include <string>

#include "workers/delivery/agent/client_agent.h"
#include "workers/delivery/agent/target_watches.h"

namespace kintsugi::workers {

/// What is done for one order: the object applied, kept as it was ordered, or deleted, and told.
/// Source: CM-30 to CM-32. Threads: the unit's loop. Lifetime: the unit outlives it.
class ManifestWork {
 public:
  using Agents = std::function<ClientAgent*(const std::string& client)>;
  /// @param look  something may be to be done for an order
  ManifestWork(Unit& unit, const DeliveryConfig& config, Agents agents,
               std::function<void(const OrderName&)> look);

  [[nodiscard]] net::Task<Outcome> reconcile(OrderName order, Step step);
  /// It is no order any more, or another one.
  void changed(const OrderName& order, bool is_order);
  [[nodiscard]] std::size_t watches() const noexcept { return watches_.watches(); }

 private:
  /// What a reconcile knows.
  struct Turn {
    OrderName order;
    Step step;
    ManifestRecord record;
    TargetKind kind;
  };
  [[nodiscard]] net::Task<Outcome> apply(Turn turn);
  [[nodiscard]] net::Task<Outcome> remove(Turn turn);
  [[nodiscard]] net::Task<Outcome> send_apply(Turn turn, std::string known_revision);
  [[nodiscard]] net::Task<Outcome> send_delete(Turn turn, Target target);
  [[nodiscard]] net::Task<bool> synced(OrderName order);
  [[nodiscard]] Outcome refused(Turn& turn, const ApiAnswer& answer, bool creating);
  [[nodiscard]] Outcome degraded(Turn& turn, std::string_view reason, std::string message,
                                 const Target* target, Duration again);
  [[nodiscard]] static DeliveryStatus applied_status(const Turn& turn, const Target& target);
  void tell(Turn& turn, const DeliveryStatus& status);
  [[nodiscard]] Outcome gone(Turn& turn);

  Unit& unit_;
  const DeliveryConfig& config_;
  Agents agents_;
  TargetWatches watches_;
  std::map<OrderName, RevertPacer> reverts_;
};

}  // namespace kintsugi::workers
