#include "kinds/policies/webhooks/webhook_totals.h"

#include <algorithm>
#include <string>

#include "base/metric_families.h"

namespace kintsugi::kinds {
namespace {

constexpr std::array<std::string_view, 4> kOperations = {"CONNECT", "CREATE", "DELETE", "UPDATE"};
constexpr std::string_view type_name(bool mutating) { return mutating ? "admit" : "validating"; }
constexpr std::string_view yes_no(bool value) { return value ? "true" : "false"; }

/// One of the four, which lives as long as the process.
std::string_view lasting(std::string_view operation) {
  const auto found = std::find(kOperations.begin(), kOperations.end(), operation);
  return found == kOperations.end() ? std::string_view() : *found;
}

}  // namespace

WebhookTotals& webhook_totals() noexcept {
  static WebhookTotals totals;
  return totals;
}

void WebhookTotals::count(const Call& call) {
  constexpr int kMostCode = 600;
  const int code = std::min(call.code, kMostCode);
  const bool rejected = !call.error_type.empty();
  const Operation operation{call.mutating, lasting(call.operation)};
  const double took = std::chrono::duration<double>(call.took).count();
  const std::lock_guard lock(mutex_);
  ++requests_[{operation, code, rejected}];
  Times& times = times_[{operation, rejected}];
  const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), took);
  ++times.counts[static_cast<std::size_t>(bound - kBounds.begin())];
  times.sum += took;
  if (rejected) {
    ++rejections_[{operation, call.error_type, code}];
  }
  failed_open_[call.mutating ? 1 : 0] += call.failed_open ? 1 : 0;
}

void WebhookTotals::fill(MetricFamilies& out) const {
  const std::lock_guard lock(mutex_);
  out.histogram("apiserver_admission_webhook_admission_duration_seconds",
                "Calls of admission webhooks.", {"type", "operation", "rejected"});
  for (const auto& [key, times] : times_) {
    const auto& [operation, rejected] = key;
    out.sample({type_name(std::get<0>(operation)), std::get<1>(operation), yes_no(rejected)},
               buckets_of(kBounds, times.counts, times.sum));
  }
  out.counter("apiserver_admission_webhook_request_total", "Calls of admission webhooks.",
              {"type", "operation", "code", "rejected"});
  for (const auto& [key, count] : requests_) {
    const auto& [operation, code, rejected] = key;
    out.sample({type_name(std::get<0>(operation)), std::get<1>(operation), std::to_string(code),
                yes_no(rejected)},
               count);
  }
  out.counter("apiserver_admission_webhook_rejection_count",
              "Requests that admission webhooks refused, or that failed with them.",
              {"type", "operation", "error_type", "rejection_code"});
  for (const auto& [key, count] : rejections_) {
    const auto& [operation, error_type, code] = key;
    out.sample({type_name(std::get<0>(operation)), std::get<1>(operation), error_type,
                std::to_string(code)},
               count);
  }
  out.counter("apiserver_admission_webhook_fail_open_count",
              "Failed calls of admission webhooks whose failurePolicy is Ignore.", {"type"});
  for (const bool mutating : {false, true}) {
    out.sample({type_name(mutating)}, failed_open_[mutating ? 1 : 0]);
  }
}

}  // namespace kintsugi::kinds
