#include <cstdio>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cmd/kintsugi/commands.h"
#include "controlplane/shard_metrics.h"
#include "proxy/admin/metrics.h"
#include "server/dispatcher_program.h"
#include "server/up_metrics.h"
#include "server/worker_metrics.h"

namespace kintsugi::cmd {
namespace {

constexpr const char* kHead =
    "# Metrics\n\nMade from the code by `tools/check_metrics.py --write`; `./dev check metrics` "
    "fails "
    "when it is stale.\n\n"
    "Text format of Prometheus, version 0.0.4. Values of labels come from fixed sets or are names "
    "of "
    "shards, kinds and API groups\nthat the installation has: never users, logical clusters or "
    "objects. A histogram has the series `_bucket` (with label `le`), `_sum`\nand `_count`. "
    "Counters "
    "begin at 0 with the process.\n";

const char* type_name(prometheus::MetricType type) {
  switch (type) {
    case prometheus::MetricType::Counter:
      return "counter";
    case prometheus::MetricType::Gauge:
      return "gauge";
    case prometheus::MetricType::Histogram:
      return "histogram";
    default:
      return "untyped";
  }
}

std::string table_of(const std::vector<MetricAbout>& all) {
  std::string out = "| name | type | labels | meaning |\n|---|---|---|---|\n";
  for (const MetricAbout& one : all) {
    const std::string labels = one.labels.empty() ? "" : "`" + join(one.labels, "`, `") + "`";
    out += "| `" + one.name + "` | " + type_name(one.type) + " | " + labels + " | " + one.help +
           " |\n";
  }
  return out;
}

}  // namespace

CommandAbout metrics_document_about() {
  return {"kintsugi metrics-document", "Prints docs/metrics.md.", {}, {}};
}

int run_metrics_document(const std::vector<std::string>& arguments) {
  const auto parsed = parse_flags({}, arguments);
  if (!parsed) {
    return wrong_usage("metrics-document", std::string(parsed.error().message()));
  }
  if (parsed->help || !parsed->positional.empty()) {
    std::fputs(help_text(metrics_document_about()).c_str(), stdout);
    return parsed->help ? 0 : 2;
  }
  std::printf(
      "%s\n## Proxy\n\n`/metrics` of the admin listener (docs/configuration.md).\n\n%s"
      "\n## Shard\n\n`/metrics` of an embedded shard, for whom rights in the root workspace let "
      "get it "
      "(ClusterRole `system:kcp:metrics-reader`), and\n`/clusters/*/metrics`, for who may read "
      "that.\n\n%s"
      "\n## Worker\n\n`/metrics` of `kintsugi worker` (docs/configuration.md). Where several roles "
      "run, "
      "each series has the label `role` besides.\n\n%s"
      "\n## Dispatcher\n\n`/metrics` of `kintsugi dispatcher` (docs/workers/eventing.md).\n\n%s"
      "\n## Up\n\n`/metrics` of `kintsugi up` at `run/admin-up.sock`, of itself and of whether its "
      "processes run.\n\n%s",
      kHead, table_of(proxy::metrics_about()).c_str(),
      table_of(controlplane::shard_metrics_about()).c_str(),
      table_of(server::worker_metrics_about()).c_str(),
      table_of(server::dispatcher_metrics_about()).c_str(),
      table_of(server::up_metrics_about()).c_str());
  return 0;
}

}  // namespace kintsugi::cmd
