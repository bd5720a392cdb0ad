#pragma once

#include <atomic>
#include <cstdint>

namespace kintsugi {
class MetricFamilies;
}

namespace kintsugi::auth {

/// Of all AuditLogs and AuditWebhooks of the process. Threads: any.
struct AuditTotals {
  std::atomic<std::uint64_t> lines{0}, lost{0};                   ///< of files
  std::atomic<std::uint64_t> posted{0}, dropped{0}, failures{0};  ///< of webhooks
  std::atomic<std::uint64_t> queued{0};                           ///< that wait for a webhook now
};
[[nodiscard]] AuditTotals& audit_totals() noexcept;

/// The families kintsugi_audit_….
void fill_audit_metrics(MetricFamilies& out);

}  // namespace kintsugi::auth
