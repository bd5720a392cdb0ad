#pragma once

#include <utility>
#include <vector>

#include "apiserver/server.h"
#include "store/store.h"

namespace kintsugi::controlplane {

/// "store-open" and "loop-alive" of /livez and /readyz: whether a start could make it better. A
/// store whose pages are damaged is open as far as it can be (store/lmdb/rescue.h): that is for
/// "store-write" of /readyz to say. The store outlives the checks.
inline void add_live_checks(std::vector<apiserver::HealthCheck>& checks,
                            const store::Store& store) {
  checks.push_back({"store-open", false, [&store]() -> Expected<void> {
                      Expected<void> health = store.health();
                      const bool is_damaged = !health && health.error().code() == Errc::kCorrupt;
                      return is_damaged ? Expected<void>() : std::move(health);
                    }});
  checks.push_back({"loop-alive", false, [] { return Expected<void>(); }});
}

}  // namespace kintsugi::controlplane
