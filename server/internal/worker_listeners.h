#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "http/handler.h"
#include "net/listener.h"
#include "net/loop.h"
#include "server/internal/worker_part.h"
#include "server/worker_config.h"

namespace kintsugi::server {

/// Serves /metrics and /debug/<role>/errors at one address and the health pages at another. A part
/// that does not answer in time is not ready, and its metrics are left out. Threads: the loop's.
class WorkerListeners {
 public:
  struct Params {
    WorkerAddress metrics, health;
    /// Whether pages of parts get the label `role`.
    bool labels = false;
    std::function<std::string()> own_metrics;  ///< of this process
    Duration patience = seconds(2);            ///< with parts
  };
  /// @param parts  outlive this object
  WorkerListeners(net::Loop& loop, Params params, std::vector<WorkerPart*> parts);
  ~WorkerListeners();
  WorkerListeners(const WorkerListeners&) = delete;
  WorkerListeners& operator=(const WorkerListeners&) = delete;

  /// @error kConfig, kIo: an address cannot be had.
  [[nodiscard]] Expected<void> open();

 private:
  class Pages;
  [[nodiscard]] Expected<std::unique_ptr<net::Listener>> listen(const WorkerAddress& address,
                                                                http::Handler& handler,
                                                                const char* what);

  net::Loop& loop_;
  Params params_;
  std::vector<WorkerPart*> parts_;
  std::unique_ptr<Pages> metrics_pages_, health_pages_;
  std::unique_ptr<net::Listener> metrics_, health_;
};

}  // namespace kintsugi::server
