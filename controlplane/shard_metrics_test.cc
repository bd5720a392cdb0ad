#include "controlplane/shard_metrics.h"

#include <gtest/gtest.h>

#include <string>

namespace kintsugi::controlplane {
namespace {

using krm::Json;

TEST(ShardMetrics, WhenAReportIsShown_EachNumberHasItsLine) {
  const Json report = *Json::parse(
      R"({"shards":{"one":{"synced":true,"objects":7}},"rows":{"written":5},
          "catalog":{"replicatedExports":3}})");
  const std::string text = shard_metrics(report, {{"ca", "client-ca", 4'102'444'800}});
  for (const char* line :
       {"\nkintsugi_replication_synced{shard=\"one\"} 1\n",
        "\nkintsugi_replication_watching{shard=\"one\"} 0\n",
        "\nkintsugi_replication_objects{shard=\"one\"} 7\n",
        "\n# TYPE kintsugi_replication_events_total counter\n",
        "\nkintsugi_replication_rows_written_total 5\n",
        "\nkintsugi_catalog_replicated_exports 3\n",
        "\n# TYPE kintsugi_untrusted_fact_total counter\n",
        "\nkintsugi_untrusted_fact_total{fact=\"home\"} ", ",process=\"shard\"} 1\n",
        "\nkintsugi_certificate_expiration_timestamp_seconds{use=\"ca\",name=\"client-ca\"} "
        "4102444800\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

}  // namespace
}  // namespace kintsugi::controlplane
