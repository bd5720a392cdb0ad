#pragma once

#include <optional>
#include <string>
#include <vector>

#include "workers/messaging/control/internal/endpoint_services.h"
#include "workers/messaging/control/internal/space_facts.h"
#include "workers/messaging/control/site.h"

namespace kintsugi::workers {

/// AddressSpaces and tenants: bound to an infra, admitted, made at its routers; their status.
/// Source: docs/spec/messaging.md. Threads: the unit's loop's.
class SpaceControl {
 public:
  explicit SpaceControl(Site& site) : site_(site), services_(site) {}

  [[nodiscard]] net::Task<Outcome> reconcile(ObjectRefKey key);
  /// The object is gone.
  void forget(const ObjectRefKey& key);

 private:
  struct Binding {
    bool bound = false;
    std::optional<krm::Json> status;  ///< to be written before anything is sent
  };
  [[nodiscard]] net::Task<Outcome> make(ObjectRefKey key);
  [[nodiscard]] net::Task<Outcome> take_away(ObjectRefKey key);
  [[nodiscard]] std::optional<krm::Json> judge(const ObjectRefKey& key);
  [[nodiscard]] Binding bind(const ObjectRefKey& key);
  struct Applied {
    krm::Json status;
    std::vector<std::string> replaced;  ///< Secrets of files that no router uses any more
    Duration again{};                   ///< 0: when something changes
  };
  [[nodiscard]] std::optional<krm::Json> place_parts(const ObjectRefKey& key);
  [[nodiscard]] net::Task<Outcome> serve(ObjectRefKey key);
  [[nodiscard]] std::optional<Applied> apply(const ObjectRefKey& key);
  [[nodiscard]] net::Task<Outcome> finish_parts(ObjectRefKey key,
                                                std::vector<std::string> replaced);

  Site& site_;
  EndpointServices services_;  // of endpoints that stand in an AddressSpace
};

}  // namespace kintsugi::workers
