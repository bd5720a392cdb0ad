#pragma once

#include <atomic>
#include <cstdint>

namespace kintsugi {
class MetricFamilies;
}

namespace kintsugi::auth {

/// Lines that were to be written to files, and those of them that were not.
struct LineTotals {
  std::atomic<std::uint64_t> lines{0}, lost{0};
};

/// Of all AuditLogs and AuditWebhooks of the process. Threads: any.
struct AuditTotals {
  LineTotals file;
  std::atomic<std::uint64_t> posted{0}, dropped{0}, failures{0};  ///< of webhooks
  std::atomic<std::uint64_t> queued{0};                           ///< that wait for a webhook now
};
[[nodiscard]] AuditTotals& audit_totals() noexcept;

/// Of access logs.
[[nodiscard]] LineTotals& access_totals() noexcept;

/// The families kintsugi_access_log_….
void fill_access_metrics(MetricFamilies& out);
/// The families kintsugi_audit_….
void fill_audit_metrics(MetricFamilies& out);

}  // namespace kintsugi::auth
