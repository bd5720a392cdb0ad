#pragma once

#include <cstdint>
#include <vector>

#include "base/metric_families.h"
#include "net/work_queue.h"
#include "proxy/admin/admin.h"

/// What the proxy shows to whoever scrapes. Loops report their counters (LoopReport), the sources
/// sum them up. Threads: the control loop's. Include this in .cc files only
/// (base/metric_families.h).
namespace kintsugi::proxy {

struct IndexReport {
  const topology::Snapshot& index;
  std::vector<topology::Feed::ShardStatus> shards;
  std::uint64_t changes = 0;
};

/// Shards, requests, costs, and what the controllers write. Refers to what it is given.
class ProxyMetrics final : public MetricSource {
 public:
  ProxyMetrics(const IndexReport& index, const std::vector<LoopReport>& loops,
               const TopologyReport& topology)
      : index_(index), loops_(loops), topology_(topology) {}
  void fill(MetricFamilies& out) const override;

 private:
  const IndexReport& index_;
  const std::vector<LoopReport>& loops_;
  const TopologyReport& topology_;
};

/// Reads over several shards (docs/aggregation.md). Refers to what it is given.
class MergeMetrics final : public MetricSource {
 public:
  explicit MergeMetrics(const std::vector<LoopReport>& loops) : loops_(loops) {}
  void fill(MetricFamilies& out) const override;

 private:
  const std::vector<LoopReport>& loops_;
};

[[nodiscard]] MetricFamilies::Histogram histogram_of(const net::TimeHistogram& times);

/// Every family of render_metrics() (proxy/admin.h).
[[nodiscard]] std::vector<MetricAbout> metrics_about();

}  // namespace kintsugi::proxy
