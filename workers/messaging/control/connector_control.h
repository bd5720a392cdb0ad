#pragma once

#include <optional>
#include <vector>

#include "workers/messaging/control/internal/ends.h"
#include "workers/messaging/control/site.h"

namespace kintsugi::workers {

/// MessagingConnectors of tenants: at all routers of the tenant's infra, after its vhost; their
/// status. Source: MS-072, MS-073. Threads: the unit's loop's.
class ConnectorControl {
 public:
  explicit ConnectorControl(Site& site) : site_(site) {}

  [[nodiscard]] net::Task<Outcome> reconcile(ObjectRefKey key);
  /// The object is gone.
  void forget(const ObjectRefKey& key);

 private:
  struct Applied {
    krm::Json status;
    bool settled = false;
    std::string replaced;  ///< Secret of files that no router uses any more
    Duration again{};
  };
  [[nodiscard]] net::Task<Outcome> make(ObjectRefKey key);
  [[nodiscard]] net::Task<Outcome> take_away(ObjectRefKey key);
  [[nodiscard]] std::optional<krm::Json> judge(const ObjectRefKey& key);
  [[nodiscard]] std::optional<Applied> apply(const ObjectRefKey& key);

  Site& site_;
};

/// For the pipeline of a router: what a connector wants there.
[[nodiscard]] std::vector<DesiredEntity> render_connector(Site& site, const ObjectRefKey& key,
                                                          const InfraComponent& component);

}  // namespace kintsugi::workers
