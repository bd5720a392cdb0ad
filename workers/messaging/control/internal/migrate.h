#pragma once

#include "workers/messaging/control/site.h"

namespace kintsugi::workers {

/// Makes the copy that an AddressSpace of another type asks for, and its addresses, where they are
/// not there yet (MS-093). The original is read, nothing of it is written. What is of that name and
/// was not made so stays: an event MigrationNameTaken. Threads: the unit's loop's.
[[nodiscard]] net::Task<Outcome> migrate_space(Site& site, ObjectRefKey space);

}  // namespace kintsugi::workers
