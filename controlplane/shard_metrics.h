#pragma once

#include <string>
#include <vector>

#include "base/certificate_ends.h"
#include "krm/json.h"

namespace kintsugi {
struct MetricAbout;
class MemoryBudget;
namespace serving {
class MemoryPressure;
class ProcessLimits;
}  // namespace serving
namespace store {
class Books;
}
}  // namespace kintsugi

/// What a shard shows to whoever scrapes /clusters/*/metrics. Threads: any.
namespace kintsugi::controlplane {

class AbuseTotals;

/// Of the process; null: there are none.
struct ShardCounts {
  const serving::ProcessLimits* limits = nullptr;
  const store::Books* books = nullptr;  ///< by workspace_books()
  const AbuseTotals* abuse = nullptr;
  const MemoryBudget* memory = nullptr;
  const serving::MemoryPressure* pressure = nullptr;
};

/// In Prometheus' text format: the process, kintsugi_replication_…, kintsugi_catalog_… and what was
/// not believed (trust.h).
/// @param report  of the replication, with member `catalog` as the loop sees it.
[[nodiscard]] std::string shard_metrics(const krm::Json& report,
                                        std::vector<CertificateEnd> certificates,
                                        const ShardCounts& counts = {});
/// Every family of it.
[[nodiscard]] std::vector<MetricAbout> shard_metrics_about();

}  // namespace kintsugi::controlplane
