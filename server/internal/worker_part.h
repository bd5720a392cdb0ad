#pragma once

#include <functional>
#include <string>

#include "server/internal/worker_pages.h"

namespace kintsugi::server {

/// One role as its process sees it: run by a thread here, or by a child. Threads: the main loop's.
class WorkerPart {
 public:
  virtual ~WorkerPart() = default;
  [[nodiscard]] virtual const std::string& role() const noexcept = 0;
  /// `done` on the main loop, within this call or later, once; never where the part hangs.
  virtual void ask_health(std::function<void(RoleHealth)> done) = 0;
  /// The same with its page of metrics; "": it has none now.
  virtual void ask_metrics(std::function<void(std::string)> done) = 0;
  /// The same with /debug/<role>/errors: JSON {"errors": […]}; 404 of a role that has none.
  virtual void ask_errors(std::function<void(HealthPage)> done) = 0;
};

}  // namespace kintsugi::server
