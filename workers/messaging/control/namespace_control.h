#pragma once

#include "workers/messaging/control/site.h"

namespace kintsugi::workers {

/// The tenant that a namespace's annotations ask for: made, changed, taken away (MS-027). An
/// annotation with an unknown value is an event. Threads: the unit's loop's.
class NamespaceControl {
 public:
  explicit NamespaceControl(Site& site) : site_(site) {}

  [[nodiscard]] net::Task<Outcome> reconcile(Key key);

 private:
  Site& site_;
};

}  // namespace kintsugi::workers
