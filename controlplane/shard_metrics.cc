#include "controlplane/shard_metrics.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "auth/audit_totals.h"
#include "base/memory_budget.h"
#include "base/process_metrics.h"
#include "controlplane/clusters/trust.h"
#include "controlplane/internal/abuse_totals.h"
#include "controlplane/quotas/workspace_books.h"
#include "http/abuse.h"
#include "kinds/policies/webhooks/webhook_totals.h"
#include "serving/memory_pressure.h"
#include "serving/process_limits.h"
#include "store/books.h"
#include "store/store_totals.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

/// A family and the member of the report that it shows.
struct Shown {
  bool is_counter;
  const char* name;
  const char* help;
  const char* member;
};

constexpr Shown kOfShards[] = {
    {false, "kintsugi_replication_synced", "Another shard has been read completely.", "synced"},
    {false, "kintsugi_replication_watching", "Another shard is followed right now.", "watching"},
    {false, "kintsugi_replication_objects", "Objects of another shard.", "objects"},
    {false, "kintsugi_replication_clusters", "Clusters of which rights are followed.",
     "clustersWithRights"},
    {true, "kintsugi_replication_events_total", "Watch events.", "events"},
    {true, "kintsugi_replication_lists_total", "Lists begun.", "lists"},
    {true, "kintsugi_replication_failures_total", "Requests that failed.", "failures"},
};
constexpr Shown kOfRows[] = {
    {true, "kintsugi_replication_rows_written_total", "Copies stored.", "written"},
    {true, "kintsugi_replication_rows_removed_total", "Copies removed.", "removed"},
    {true, "kintsugi_replication_batches_total", "Transactions begun.", "batches"},
    {true, "kintsugi_replication_store_failures_total", "Transactions that failed.", "failures"},
    {false, "kintsugi_replication_rows_waiting", "Copies not stored yet.", "waiting"},
};
constexpr Shown kOfCatalog[] = {
    {false, "kintsugi_catalog_exports", "APIExports of this shard.", "exports"},
    {false, "kintsugi_catalog_replicated_exports", "APIExports of others.", "replicatedExports"},
    {false, "kintsugi_catalog_types", "WorkspaceTypes of this shard.", "types"},
    {false, "kintsugi_catalog_replicated_types", "WorkspaceTypes of others.", "replicatedTypes"},
};

/// A number, or 1 for true; 0 for what is not there.
std::int64_t number_of(const Json* member) {
  if (member == nullptr) {
    return 0;
  }
  return member->is_bool() ? (member->as_bool() ? 1 : 0)
                           : (member->is_integer() ? member->as_integer() : 0);
}

class ShardMetrics final : public MetricSource {
 public:
  ShardMetrics(const Json& report, const serving::ProcessLimits& limits, const ShardCounts& counts)
      : report_(report),
        limits_(limits),
        books_(counts.books),
        abuse_(counts.abuse),
        memory_(counts.memory),
        pressure_(counts.pressure) {}

  void fill(MetricFamilies& out) const override {
    const Json* const shards = report_.find("shards");
    for (const Shown& shown : kOfShards) {
      begin(out, shown, {"shard"});
      for (std::size_t i = 0; shards != nullptr && i < shards->members().size(); ++i) {
        const krm::JsonMember& shard = shards->members()[i];
        out.sample({shard.key}, number_of(shard.value.find(shown.member)));
      }
    }
    part(out, kOfRows, "rows");
    part(out, kOfCatalog, "catalog");
    out.counter("kintsugi_untrusted_fact_total", "Values in objects that were not believed.",
                {"fact"});
    for (std::size_t i = 0; i < kUntrustedValues; ++i) {
      const auto value = static_cast<UntrustedValue>(i);
      out.sample({untrusted_name(value)}, untrusted_count(value));
    }
    auth::fill_audit_metrics(out);
    store::store_totals().fill(out);
    kinds::webhook_totals().fill(out);
    limits_.fill(out);
    out.counter("kintsugi_limited_total", "requests refused with 429", {"limit"});
    limits_.fill_limited(out);
    fill_memory(out);
    fill_quotas(out);
    out.counter("kintsugi_abuse_total", "what clients did that costs and brings nothing", {"kind"});
    const http::AbuseCounters abuse = abuse_ != nullptr ? abuse_->sum() : http::AbuseCounters();
    for (std::size_t i = 0; i < http::kAbuseKinds; ++i) {
      out.sample({http::abuse_name(static_cast<http::Abuse>(i))}, abuse.counts[i]);
    }
  }

 private:
  void fill_memory(MetricFamilies& out) const {
    const auto used = [&](MemoryAccount account) {
      return memory_ != nullptr ? memory_->used(account) : 0;
    };
    out.gauge("kintsugi_memory_bytes", "what clients make the process keep", {"account"});
    out.sample({account_name(MemoryAccount::kBodies)}, used(MemoryAccount::kBodies));
    const serving::MemoryPressure calm(1);
    const serving::MemoryPressure& pressure = pressure_ != nullptr ? *pressure_ : calm;
    out.gauge("kintsugi_memory_budget_bytes",
              "what the accounts have parts of, and what memory is compared with",
              pressure.budget());
    pressure.fill(out);
  }

  /// Of each quota that one of all accounts which has most of its limit.
  void fill_quotas(MetricFamilies& out) const {
    std::array<double, kQuotas> most_used{};
    if (books_ != nullptr) {
      books_->each([&](std::string_view, const store::Sums& sums, const store::Sums& most) {
        for (std::size_t i = 0; i < kQuotas; ++i) {
          if (most[i] != store::kNoLimit && most[i] > 0) {
            most_used[i] =
                std::max(most_used[i], static_cast<double>(sums[i]) / static_cast<double>(most[i]));
          }
        }
      });
    }
    out.gauge("kintsugi_quota_used_ratio",
              "Of its limit, what the workspace (quota owned: the owner) has that has most of it.",
              {"quota"});
    for (std::size_t i = 0; i < kQuotas; ++i) {
      out.sample({quota_name(static_cast<Quota>(i))}, most_used[i]);
    }
  }

  static void begin(MetricFamilies& out, const Shown& shown, MetricFamilies::Texts labels) {
    if (shown.is_counter) {
      out.counter(shown.name, shown.help, labels);
    } else {
      out.gauge(shown.name, shown.help, labels);
    }
  }

  template <std::size_t Size>
  void part(MetricFamilies& out, const Shown (&all)[Size], const char* name) const {
    for (const Shown& shown : all) {
      begin(out, shown, {});
      out.sample({}, number_of(report_.at({name, shown.member})));
    }
  }

  const Json& report_;
  const serving::ProcessLimits& limits_;
  const store::Books* books_;
  const AbuseTotals* abuse_;
  const MemoryBudget* memory_;
  const serving::MemoryPressure* pressure_;
};

}  // namespace

std::string shard_metrics(const Json& report, std::vector<CertificateEnd> certificates,
                          const ShardCounts& counts) {
  const serving::ProcessLimits none;
  const ProcessMetrics process("shard", std::move(certificates));
  const ShardMetrics shard(report, counts.limits != nullptr ? *counts.limits : none, counts);
  return metrics_text({&process, &shard});
}

std::vector<MetricAbout> shard_metrics_about() {
  const Json none = Json::object();
  MetricFamilies out;
  ProcessMetrics("shard", {}).fill(out);
  ShardMetrics(none, serving::ProcessLimits(), {}).fill(out);
  return out.about();
}

}  // namespace kintsugi::controlplane
