#include "auth/audit_totals.h"

#include "auth/audit_refusals.h"
#include "base/metric_families.h"

namespace kintsugi::auth {

AuditTotals& audit_totals() noexcept {
  static AuditTotals totals;
  return totals;
}

LineTotals& access_totals() noexcept {
  static LineTotals totals;
  return totals;
}

void fill_access_metrics(MetricFamilies& out) {
  out.counter("kintsugi_access_log_lines_total", "lines for the access log",
              access_totals().lines.load());
  out.counter("kintsugi_access_log_dropped_total", "those that could not be written",
              access_totals().lost.load());
}

void fill_audit_metrics(MetricFamilies& out) {
  const AuditTotals& totals = audit_totals();
  out.counter("kintsugi_audit_events_total", "lines for the audit log", totals.file.lines.load());
  out.counter("kintsugi_audit_dropped_total", "those that could not be written",
              totals.file.lost.load());
  out.counter("kintsugi_audit_refusals_total", "refusals that the audit policy leaves out",
              {"result"});
  out.sample({"written"}, audit_refusals().written());
  out.sample({"counted"}, audit_refusals().counted());
  out.counter("kintsugi_audit_webhook_events_total", "events for the audit webhook", {"result"});
  out.sample({"sent"}, totals.posted.load());
  out.sample({"dropped"}, totals.dropped.load());
  out.counter("kintsugi_audit_webhook_failures_total",
              "posts that the audit webhook did not take, with those that are tried again",
              totals.failures.load());
  out.gauge("kintsugi_audit_webhook_queued", "events that wait for the audit webhook",
            totals.queued.load());
}

}  // namespace kintsugi::auth
