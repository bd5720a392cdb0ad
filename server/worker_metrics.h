#pragma once

#include <vector>

namespace kintsugi {
struct MetricAbout;
}

namespace kintsugi::server {

/// Every family that a worker of one role or of several shows, for docs/metrics.md.
[[nodiscard]] std::vector<MetricAbout> worker_metrics_about();

}  // namespace kintsugi::server
