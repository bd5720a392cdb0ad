#pragma once

#include <string>
#include <vector>

#include "server/worker_config.h"
#include "workers/eventing/dispatcher/egress_config.h"

namespace kintsugi {
struct MetricAbout;
}

namespace kintsugi::server {

/// What `kintsugi dispatcher` is to do.
struct DispatcherOptions {
  workers::DispatcherSettings settings;
  std::string contract;  ///< file, which may be missing at first
  WorkerAddress status;
};

/// Does what the contract says until SIGTERM or SIGINT, which let what is under way end (DP-9): 0;
/// a second one ends the process at once: 143. SIGHUP reads the contract again, as a change of it
/// does. @returns 1 with a line on stderr when it cannot start.
int run_dispatcher_program(DispatcherOptions options);

/// Every family that it shows, for docs/metrics.md.
[[nodiscard]] std::vector<MetricAbout> dispatcher_metrics_about();

}  // namespace kintsugi::server
