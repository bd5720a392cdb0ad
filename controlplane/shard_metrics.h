#pragma once

#include <string>
#include <vector>

#include "base/certificate_ends.h"
#include "krm/json.h"

namespace kintsugi {
struct MetricAbout;
namespace serving {
class ProcessLimits;
}
}  // namespace kintsugi

/// What a shard shows to whoever scrapes /clusters/*/metrics. Threads: any.
namespace kintsugi::controlplane {

/// In Prometheus' text format: the process, kintsugi_replication_…, kintsugi_catalog_… and what was
/// not believed (trust.h).
/// @param report  of the replication, with member `catalog` as the loop sees it.
/// @param limits  of the process; null: there are none
[[nodiscard]] std::string shard_metrics(const krm::Json& report,
                                        std::vector<CertificateEnd> certificates,
                                        const serving::ProcessLimits* limits = nullptr);
/// Every family of it.
[[nodiscard]] std::vector<MetricAbout> shard_metrics_about();

}  // namespace kintsugi::controlplane
