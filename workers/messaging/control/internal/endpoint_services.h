#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "net/task.h"
#include "workers/messaging/control/internal/directory.h"
#include "workers/messaging/model/endpoint_resources.h"

namespace kintsugi::workers {

class Site;

/// Services, Ingresses and Routes of endpoints, and of those that stand in an AddressSpace, in the
/// namespace of an infra whose routers an operator makes. As with Operators, the worker's user
/// needs rights there. What is written is written again when it is another thing, and every ten
/// minutes. Source: MS-068, MS-069. Threads: the unit's loop's.
class EndpointServices {
 public:
  explicit EndpointServices(Site& site) : site_(site) {}

  /// Removes what was recorded and is not wanted, writes what is.
  /// @param endpoint  it, or its space  @param recorded  as recorded_resources() says
  /// @returns kDone: is as wanted, or find() says why not
  [[nodiscard]] net::Task<Outcome> settle(ObjectRefKey endpoint, Key infra,
                                          std::vector<krm::Json> wanted,
                                          std::vector<std::string> recorded);
  /// ServiceCreated; nullopt: nothing was written yet.
  [[nodiscard]] std::optional<Condition> find(const ObjectRefKey& endpoint) const;
  /// @param texts  as recorded_resources() says. kDone: they are gone
  [[nodiscard]] net::Task<Outcome> remove(ObjectRefKey endpoint, Key infra,
                                          std::vector<std::string> texts);
  void forget(const ObjectRefKey& endpoint) { written_.erase(text_of(endpoint)); }

 private:
  [[nodiscard]] net::Task<Outcome> write(ObjectRefKey endpoint, Key infra,
                                         std::vector<krm::Json> wanted);
  struct Written {
    std::size_t hash = 0;
    TimePoint at{};
    Condition condition;
  };
  Site& site_;
  std::map<std::string, Written, std::less<>> written_;  // by text_of()
};

}  // namespace kintsugi::workers
