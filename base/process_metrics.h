#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/certificate_ends.h"
#include "base/metric_families.h"

namespace kintsugi {

/// What every process shows: the usual `process_*` families, which build it is, and when the
/// certificates end that it uses.
/// Cost of a scrape: a few system calls, and one for each hundreds of open descriptors.
class ProcessMetrics final : public MetricSource {
 public:
  /// @param process  "proxy" or "shard"
  ProcessMetrics(std::string_view process, std::vector<CertificateEnd> certificates)
      : process_(process), certificates_(std::move(certificates)) {}
  void fill(MetricFamilies& out) const override;

 private:
  std::string process_;
  std::vector<CertificateEnd> certificates_;
};

}  // namespace kintsugi
