#pragma once

#include <vector>

namespace kintsugi {
struct MetricAbout;
}

namespace kintsugi::server {

/// Every family that `kintsugi up` shows, for docs/metrics.md.
[[nodiscard]] std::vector<MetricAbout> up_metrics_about();

}  // namespace kintsugi::server
