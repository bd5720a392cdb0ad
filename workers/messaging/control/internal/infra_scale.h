#pragma once

#include "workers/messaging/control/internal/operators.h"
#include "workers/messaging/control/site.h"

namespace kintsugi::workers {

// Which components an infra has, and how many of them operators are to make. Threads: the unit's
// loop's.

/// Whether an infra leaves routers or brokers to operators.
[[nodiscard]] bool has_operators(const MessagingInfra& infra) noexcept;
/// Connections to the components that there are. @param known  null: it names all of them itself
void follow_components(OwnedInfra& infra, Operators::Known* known);
/// What operators are to be told: more or fewer routers and brokers. Brokers that are to go are
/// none any more when it returns. Nothing while nobody has asked for an infra that is OnDemand.
[[nodiscard]] OperatorPlan scale(OwnedInfra& infra, Operators::Known& known);
/// Whether somebody has asked for it.
[[nodiscard]] bool is_wanted(const OwnedInfra& infra, const Operators::Known* known);
/// How old what is known of operators may be before it is read again.
[[nodiscard]] Duration operators_age(const OwnedInfra& infra, const Operators::Known& known);

}  // namespace kintsugi::workers
