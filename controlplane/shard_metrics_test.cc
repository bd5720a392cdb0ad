#include "controlplane/shard_metrics.h"

#include <gtest/gtest.h>

#include <string>

#include "apiserver/keys.h"
#include "controlplane/internal/abuse_totals.h"
#include "controlplane/quotas/workspace_books.h"
#include "store/memory/memory_store.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

TEST(ShardMetrics, WhenAReportIsShown_EachNumberHasItsLine) {
  const Json report = *Json::parse(
      R"({"shards":{"one":{"synced":true,"objects":7}},"rows":{"written":5},
          "catalog":{"replicatedExports":3}})");
  store::MemoryStore store(workspace_books());
  store::Sums most = store::no_limits();
  most[column_of(Quota::kObjects)] = 4;
  store.books()->limit("c", most);
  ASSERT_TRUE(store.commit_wait(
      {{store::EventType::kPut, *apiserver::object_key("configmaps", "c", "n", "a"), "x", {}}}));
  AbuseTotals abuse;
  http::AbuseCounters counters;
  counters.add(http::Abuse::kPing);
  abuse.put(abuse.claim(), counters);
  abuse.put(abuse.claim(), counters);
  const std::string text =
      shard_metrics(report, {{"ca", "client-ca", 4'102'444'800}}, {nullptr, store.books(), &abuse});
  for (const char* line :
       {"\nkintsugi_replication_synced{shard=\"one\"} 1\n",
        "\nkintsugi_replication_watching{shard=\"one\"} 0\n",
        "\nkintsugi_replication_objects{shard=\"one\"} 7\n",
        "\n# TYPE kintsugi_replication_events_total counter\n",
        "\nkintsugi_replication_rows_written_total 5\n",
        "\nkintsugi_catalog_replicated_exports 3\n",
        "\nkintsugi_quota_used_ratio{quota=\"objects\"} 0.25\n",
        "\nkintsugi_quota_used_ratio{quota=\"owned\"} 0\n",
        "\nkintsugi_abuse_total{kind=\"ping\"} 2\n",
        "\n# TYPE kintsugi_untrusted_fact_total counter\n",
        "\nkintsugi_untrusted_fact_total{fact=\"home\"} ", ",process=\"shard\"} 1\n",
        "\nkintsugi_certificate_expiration_timestamp_seconds{use=\"ca\",name=\"client-ca\"} "
        "4102444800\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

}  // namespace
}  // namespace kintsugi::controlplane
