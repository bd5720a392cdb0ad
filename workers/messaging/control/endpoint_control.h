#pragma once

#include <optional>
#include <vector>

#include "workers/messaging/control/internal/endpoint_services.h"
#include "workers/messaging/control/internal/ends.h"
#include "workers/messaging/control/site.h"

namespace kintsugi::workers {

/// MessagingEndpoints of tenants: an alias of the tenant's vhost, which the tenant makes, or
/// listeners of their own with ports and certificates; their status. Source: MS-068 to MS-071,
/// MS-095. Threads: the unit's loop's.
class EndpointControl {
 public:
  explicit EndpointControl(Site& site) : site_(site), services_(site) {}

  [[nodiscard]] net::Task<Outcome> reconcile(ObjectRefKey key);
  /// The object is gone.
  void forget(const ObjectRefKey& key);

 private:
  struct Applied {
    krm::Json status;
    std::string replaced;  ///< Secret of files that no router uses any more
    Duration again{};
  };
  [[nodiscard]] net::Task<Outcome> make(ObjectRefKey key);
  [[nodiscard]] net::Task<Outcome> take_away(ObjectRefKey key);
  [[nodiscard]] std::optional<krm::Json> judge(const ObjectRefKey& key);
  /// Ports that are not recorded yet: the status that says them, to be written before anything is
  /// sent. nullopt: they are.
  [[nodiscard]] std::optional<krm::Json> place(const ObjectRefKey& key);
  [[nodiscard]] std::optional<Applied> apply(const ObjectRefKey& key);
  /// Services and what stands in front of them: written; others that were are taken away.
  [[nodiscard]] net::Task<Outcome> serve(ObjectRefKey key, Key infra);

  Site& site_;
  EndpointServices services_;
};

/// For the pipeline of a router: the listeners that an endpoint wants there.
[[nodiscard]] std::vector<DesiredEntity> render_endpoint(Site& site, const ObjectRefKey& key,
                                                         const InfraComponent& component);

}  // namespace kintsugi::workers
