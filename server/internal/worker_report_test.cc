#include "server/internal/worker_report.h"

#include <gtest/gtest.h>

#include <string>

#include "net/testing/support.h"

namespace kintsugi::server {
namespace {

using workers::Key;
using workers::Outcome;

bool has(const std::string& page, const std::string& line) {
  return ("\n" + page).find("\n" + line + "\n") != std::string::npos;
}

WorkerReport example() {
  WorkerReport report;
  report.role = "example";
  report.units = 3;
  report.refused = 1;
  report.duplicate_clusters = 2;
  ControllerReport& of = report.controllers["greeting"];
  of.most = 48;
  of.running = 2;
  of.counts.success = 10;
  of.counts.error = 3;
  of.counts.terminal = 1;
  of.counts.requeue_after = 4;
  of.counts.panics = 5;
  of.counts.timeouts = 6;
  of.counts.times[0] = 7;
  of.counts.times[1] = 2;
  of.counts.times.back() = 1;
  of.counts.seconds = 71.5;
  of.depth = {1, 2, 3};
  of.adds = 20;
  of.retries = 8;
  of.queued.add(milliseconds(1));
  of.worked.add(seconds(2000));
  of.unfinished = milliseconds(1500);
  of.longest = seconds(1);
  ClientReport& client = report.clients["127.0.0.1:6443"];
  client.requests[{"200", "GET"}] = 9;
  client.answers = 9;
  client.waited = milliseconds(250);
  client.withheld = 2;
  ReflectorReport& reflector = report.reflectors["greetings"];
  reflector.objects = 100;
  reflector.guarded = 1;
  reflector.relists[0] = 2;
  report.partitions = 3072;
  report.generation = 5;
  report.placements.moves["ring"] = 6;
  report.placements.pending["MaxBrokersReached"] = 7;
  report.placements.decisions.add(milliseconds(1));
  report.handovers.add(milliseconds(40));
  report.coordinates = true;
  report.journal_bytes = 4096;
  report.journal_commits = 11;
  report.journal_rebuilds = 1;
  return report;
}

TEST(WorkerReport, RT_T104_EveryFamilyHasItsLabels) {
  const std::string page = worker_metrics_text(example(), true);
  for (const std::string line : {
           "controller_runtime_reconcile_total{controller=\"greeting\",result=\"success\"} 10",
           "controller_runtime_reconcile_total{controller=\"greeting\",result=\"error\"} 4",
           "controller_runtime_reconcile_total{controller=\"greeting\",result=\"requeue\"} 0",
           "controller_runtime_reconcile_total{controller=\"greeting\",result=\"requeue_after\"} 4",
           "controller_runtime_reconcile_errors_total{controller=\"greeting\"} 4",
           "controller_runtime_terminal_reconcile_errors_total{controller=\"greeting\"} 1",
           "controller_runtime_reconcile_panics_total{controller=\"greeting\"} 5",
           "controller_runtime_reconcile_timeouts_total{controller=\"greeting\"} 6",
           "controller_runtime_reconcile_time_seconds_bucket{controller=\"greeting\",le=\"0.005\"} "
           "7",
           "controller_runtime_reconcile_time_seconds_bucket{controller=\"greeting\",le=\"0.01\"} "
           "9",
           "controller_runtime_reconcile_time_seconds_bucket{controller=\"greeting\",le=\"60\"} 9",
           "controller_runtime_reconcile_time_seconds_bucket{controller=\"greeting\",le=\"+Inf\"} "
           "10",
           "controller_runtime_reconcile_time_seconds_count{controller=\"greeting\"} 10",
           "controller_runtime_reconcile_time_seconds_sum{controller=\"greeting\"} 71.5",
           "controller_runtime_max_concurrent_reconciles{controller=\"greeting\"} 48",
           "controller_runtime_active_workers{controller=\"greeting\"} 2",
           "workqueue_depth{name=\"greeting\",controller=\"greeting\",priority=\"-100\"} 1",
           "workqueue_depth{name=\"greeting\",controller=\"greeting\",priority=\"0\"} 2",
           "workqueue_depth{name=\"greeting\",controller=\"greeting\",priority=\"100\"} 3",
           "workqueue_adds_total{name=\"greeting\",controller=\"greeting\"} 20",
           "workqueue_retries_total{name=\"greeting\",controller=\"greeting\"} 8",
           "workqueue_queue_duration_seconds_count{name=\"greeting\",controller=\"greeting\"} 1",
           "workqueue_queue_duration_seconds_sum{name=\"greeting\",controller=\"greeting\"} 0.001",
           "workqueue_work_duration_seconds_bucket{name=\"greeting\",controller=\"greeting\",le="
           "\"1000\"} 0",
           "workqueue_work_duration_seconds_bucket{name=\"greeting\",controller=\"greeting\",le="
           "\"+Inf\"} 1",
           "workqueue_unfinished_work_seconds{name=\"greeting\",controller=\"greeting\"} 1.5",
           "workqueue_longest_running_processor_seconds{name=\"greeting\",controller=\"greeting\"} "
           "1",
           "rest_client_requests_total{code=\"200\",method=\"GET\",host=\"127.0.0.1:6443\"} 9",
           "rest_client_request_duration_seconds_sum{verb=\"any\",host=\"127.0.0.1:6443\"} 0.25",
           "worker_writes_withheld_total{role=\"example\"} 2",
           "reflector_objects{role=\"example\",resource=\"greetings\"} 100",
           "reflector_relists_total{role=\"example\",resource=\"greetings\",reason=\"expired\"} 2",
           "reflector_relists_total{role=\"example\",resource=\"greetings\",reason=\"server\"} 0",
           "reflector_mass_delete_guard_total{role=\"example\",resource=\"greetings\"} 1",
           "leader_election_master_status{name=\"ring-example-coordinator\"} 1",
           "ring_partitions_owned{role=\"example\"} 3072",
           "ring_generation{role=\"example\"} 5",
           "ring_handover_seconds_count{role=\"example\"} 1",
           "ring_handover_seconds_sum{role=\"example\"} 0.04",
           "journal_bytes{role=\"example\"} 4096",
           "journal_commits_total{role=\"example\"} 11",
           "journal_rebuilds_total{role=\"example\"} 1",
           "placement_moves_total{role=\"example\",reason=\"ring\"} 6",
           "placement_pending{role=\"example\",reason=\"MaxBrokersReached\"} 7",
           "schedule_seconds_count{role=\"example\"} 1",
           "schedule_seconds_sum{role=\"example\"} 0.001",
           "worker_units{role=\"example\"} 3",
           "unit_duplicate_cluster_total{role=\"example\"} 2",
           "worker_endpoints_refused{role=\"example\"} 1",
           "worker_memory_pressure{role=\"example\"} 1",
       }) {
    EXPECT_TRUE(has(page, line)) << line << "\n" << page;
  }
  EXPECT_TRUE(
      has(worker_metrics_text(example(), false), "worker_memory_pressure{role=\"example\"} 0"));
}

TEST(WorkerReport, RT_T104_AHistogramOfARoleHasItsLabels) {
  WorkerReport report = example();
  report.families = {{"pipeline_step_seconds", "steps", false, {"workflow", "step"}, true},
                     {"plain_seconds", "no labels", false, {}, true}};
  report.series[{0, {"router", "create", "0.1"}}] = 2;
  report.series[{0, {"router", "create", "+Inf"}}] = 3;
  report.series[{0, {"router", "create", "sum"}}] = 1.5;
  report.series[{0, {"broker", "read", "+Inf"}}] = 4;
  report.series[{1, {"+Inf"}}] = 5;
  const std::string page = worker_metrics_text(report, false);
  for (const std::string line :
       {"pipeline_step_seconds_bucket{workflow=\"router\",step=\"create\",le=\"0.1\"} 2",
        "pipeline_step_seconds_count{workflow=\"router\",step=\"create\"} 3",
        "pipeline_step_seconds_sum{workflow=\"router\",step=\"create\"} 1.5",
        "pipeline_step_seconds_count{workflow=\"broker\",step=\"read\"} 4",
        "plain_seconds_count 5"}) {
    EXPECT_TRUE(has(page, line)) << line << "\n" << page;
  }
}

TEST(WorkerReport, RT2_RestartsAreCountedByRole) {
  const std::string page = restart_metrics_text({{"a", 0}, {"b", 3}});
  EXPECT_TRUE(has(page, "worker_role_restarts_total{role=\"a\"} 0"));
  EXPECT_TRUE(has(page, "worker_role_restarts_total{role=\"b\"} 3"));
  EXPECT_NE(process_metrics_text().find("\nprocess_resident_memory_bytes "), std::string::npos);
}

TEST(WorkerReport, ControllersOfOneNameAddUp) {
  net::Loop loop("test");
  const auto work = [](Key) -> net::Task<Outcome> { co_return Outcome::done(); };
  workers::Controller::Params params;
  params.name = "c";
  params.most = 4;
  workers::Controller one(loop, params, work), two(loop, params, work);
  one.add({"c", "n", "a"}, workers::Priority::kLive);
  one.add({"c", "n", "b"}, workers::Priority::kInitial);
  two.add({"c", "n", "a"}, workers::Priority::kLive);
  ControllerReport before;
  before.add(one, loop.now());
  before.add(two, loop.now());
  EXPECT_EQ(before.depth, (std::array<std::uint64_t, 3>{1, 0, 2}));
  EXPECT_EQ(before.most, 8U);
  ASSERT_TRUE(net::testing::run_until(
      loop, [&] { return one.counts().success == 2 && two.counts().success == 1; }));
  ControllerReport after;
  after.add(one, loop.now());
  after.add(two, loop.now());
  EXPECT_EQ(after.counts.success, 3U);
  EXPECT_EQ(after.adds, 3U);
  EXPECT_EQ(after.depth, (std::array<std::uint64_t, 3>{}));
  EXPECT_EQ(after.queued.count, 3U);
  EXPECT_EQ(after.worked.count, 3U);
  std::uint64_t times = 0;
  for (const std::uint64_t count : after.counts.times) {
    times += count;
  }
  EXPECT_EQ(times, 3U);
}

TEST(WorkerReport, TheResourceIsTheLastOfThePath) {
  EXPECT_EQ(resource_of("/services/apiexport/a/b/clusters/*/apis/g/v1/greetings"), "greetings");
  EXPECT_EQ(resource_of("/clusters/*/api/v1/configmaps?labelSelector=a/b"), "configmaps");
}

}  // namespace
}  // namespace kintsugi::server
