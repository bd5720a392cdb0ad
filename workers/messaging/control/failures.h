#pragma once

#include "krm/json.h"
#include "workers/messaging/control/site.h"

namespace kintsugi::workers {

/// Adds the exchanges with components that failed to a list, for /debug/messaging/errors: of each
/// component the last 100, as {at, unit, infra, component, host, entity, code, text}; code 0: there
/// was no answer. Texts are the components', cut, without what is known to be secret. Source: 11.4.
void add_failures(const Site& site, krm::Json& list);

}  // namespace kintsugi::workers
