#include "server/worker_metrics.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/metric_families.h"
#include "base/process_metrics.h"
#include "server/internal/worker_report.h"
#include "server/internal/worker_roles.h"

namespace kintsugi::server {
namespace {

using Histogram = MetricFamilies::Histogram;

constexpr std::string_view kPriorities[] = {"-100", "0", "100"};

double seconds_of(Duration time) { return std::chrono::duration<double>(time).count(); }

/// @param counts  of each bucket alone; the last has no upper bound
template <std::size_t N, class Bound>
Histogram histogram(const std::array<std::uint64_t, N>& counts, double sum, Bound bound) {
  Histogram out;
  for (std::size_t i = 0; i < N; ++i) {
    out.sample_count += counts[i];
    out.bucket.push_back(
        {out.sample_count, i + 1 < N ? bound(i) : std::numeric_limits<double>::infinity()});
  }
  out.sample_sum = sum;
  return out;
}

Histogram histogram(const workers::DurationHistogram& of) {
  return histogram(of.counts, seconds_of(of.sum), [](std::size_t i) {
    return static_cast<double>(workers::DurationHistogram::bound_ns(i)) / 1e9;
  });
}

Histogram without_buckets(std::uint64_t count, Duration sum) {
  return histogram(std::array<std::uint64_t, 1>{count}, seconds_of(sum),
                   [](std::size_t) { return 0.0; });
}

class WorkerMetrics final : public MetricSource {
 public:
  WorkerMetrics(const WorkerReport& report, bool pressure) : report_(report), pressure_(pressure) {}

  void fill(MetricFamilies& out) const override {
    fill_reconciles(out);
    fill_queues(out);
    fill_clients(out);
    fill_reflectors(out);
    fill_role(out);
    fill_own(out);
  }

 private:
  /// One family of which each controller has a series.
  template <class Value>
  void each_controller(MetricFamilies& out, Value value) const {
    for (const auto& [name, controller] : report_.controllers) {
      out.sample({name}, value(controller));
    }
  }
  template <class Value>
  void each_queue(MetricFamilies& out, Value value) const {
    for (const auto& [name, controller] : report_.controllers) {
      out.sample({name, name}, value(controller));
    }
  }

  void fill_reconciles(MetricFamilies& out) const {
    out.counter("controller_runtime_reconcile_total", "reconciles that ended, by how",
                {"controller", "result"});
    for (const auto& [name, of] : report_.controllers) {
      out.sample({name, "success"}, of.counts.success);
      out.sample({name, "error"}, of.counts.error + of.counts.terminal);
      out.sample({name, "requeue"}, 0);
      out.sample({name, "requeue_after"}, of.counts.requeue_after);
    }
    const auto count = [&](const char* family, const char* help, auto value) {
      out.counter(family, help, {"controller"});
      each_controller(out, value);
    };
    count("controller_runtime_reconcile_errors_total", "reconciles that failed",
          [](const ControllerReport& of) { return of.counts.error + of.counts.terminal; });
    count("controller_runtime_terminal_reconcile_errors_total",
          "reconciles that failed until their object changes",
          [](const ControllerReport& of) { return of.counts.terminal; });
    count("controller_runtime_reconcile_panics_total", "reconciles that threw an exception",
          [](const ControllerReport& of) { return of.counts.panics; });
    count("controller_runtime_reconcile_timeouts_total", "reconciles that took too long",
          [](const ControllerReport& of) { return of.counts.timeouts; });
    out.histogram("controller_runtime_reconcile_time_seconds", "how long reconciles took",
                  {"controller"});
    each_controller(out, [](const ControllerReport& of) {
      return histogram(of.counts.times, of.counts.seconds,
                       [](std::size_t i) { return workers::ControllerCounts::kBounds[i]; });
    });
    out.gauge("controller_runtime_max_concurrent_reconciles", "most reconciles at a time",
              {"controller"});
    each_controller(out, [](const ControllerReport& of) { return of.most; });
    out.gauge("controller_runtime_active_workers", "reconciles that run", {"controller"});
    each_controller(out, [](const ControllerReport& of) { return of.running; });
  }

  void fill_queues(MetricFamilies& out) const {
    out.gauge("workqueue_depth", "keys that are ready", {"name", "controller", "priority"});
    for (const auto& [name, of] : report_.controllers) {
      for (std::size_t i = 0; i < of.depth.size(); ++i) {
        out.sample({name, name, kPriorities[i]}, of.depth[i]);
      }
    }
    out.counter("workqueue_adds_total", "keys that became ready", {"name", "controller"});
    each_queue(out, [](const ControllerReport& of) { return of.adds; });
    out.counter("workqueue_retries_total", "delays of keys that come again",
                {"name", "controller"});
    each_queue(out, [](const ControllerReport& of) { return of.retries; });
    out.histogram("workqueue_queue_duration_seconds", "how long keys were ready before their turn",
                  {"name", "controller"});
    each_queue(out, [](const ControllerReport& of) { return histogram(of.queued); });
    out.histogram("workqueue_work_duration_seconds", "how long keys were worked on",
                  {"name", "controller"});
    each_queue(out, [](const ControllerReport& of) { return histogram(of.worked); });
    out.gauge("workqueue_unfinished_work_seconds", "of all that is worked on now",
              {"name", "controller"});
    each_queue(out, [](const ControllerReport& of) { return seconds_of(of.unfinished); });
    out.gauge("workqueue_longest_running_processor_seconds", "of the oldest of them",
              {"name", "controller"});
    each_queue(out, [](const ControllerReport& of) { return seconds_of(of.longest); });
  }

  void fill_clients(MetricFamilies& out) const {
    out.counter("rest_client_requests_total", "answers; code 0: there was none",
                {"code", "method", "host"});
    for (const auto& [host, of] : report_.clients) {
      for (const auto& [key, count] : of.requests) {
        out.sample({key.first, key.second, host}, count);
      }
    }
    out.histogram("rest_client_request_duration_seconds", "until the answer", {"verb", "host"});
    for (const auto& [host, of] : report_.clients) {
      out.sample({"any", host}, without_buckets(of.answers, of.waited));
    }
    out.counter("worker_writes_withheld_total",
                "writes that were not sent, since the Lease was not held", {"role"});
    std::uint64_t withheld = 0;
    for (const auto& [host, of] : report_.clients) {
      withheld += of.withheld;
    }
    out.sample({report_.role}, withheld);
  }

  void fill_reflectors(MetricFamilies& out) const {
    out.gauge("reflector_objects", "objects in caches", {"role", "resource"});
    for (const auto& [resource, of] : report_.reflectors) {
      out.sample({report_.role, resource}, of.objects);
    }
    out.counter("reflector_relists_total", "lists that were begun again",
                {"role", "resource", "reason"});
    for (const auto& [resource, of] : report_.reflectors) {
      for (std::size_t i = 0; i < of.relists.size(); ++i) {
        out.sample({report_.role, resource,
                    shards::relist_reason_name(static_cast<shards::RelistReason>(i))},
                   of.relists[i]);
      }
    }
    out.counter("reflector_mass_delete_guard_total",
                "lists that would have deleted much and were asked for again",
                {"role", "resource"});
    for (const auto& [resource, of] : report_.reflectors) {
      out.sample({report_.role, resource}, of.guarded);
    }
  }

  void fill_role(MetricFamilies& out) const {
    out.gauge("leader_election_master_status", "this process coordinates the ring of a unit",
              {"name"});
    out.sample({"ring-" + report_.role + "-coordinator"}, report_.coordinates ? 1 : 0);
    const auto gauge = [&](const char* family, const char* help, auto value) {
      out.gauge(family, help, {"role"});
      out.sample({report_.role}, value);
    };
    gauge("ring_partitions_owned", "partitions of all units", report_.partitions);
    gauge("ring_generation", "highest generation of the ring of a unit", report_.generation);
    out.histogram("ring_handover_seconds", "until a partition that was to come was ours", {"role"});
    out.sample({report_.role}, histogram(report_.handovers));
    fill_placements(out);
    gauge("worker_units", "endpoints that are worked on", report_.units);
    gauge("worker_endpoints_refused", "endpoints that no credential is sent to", report_.refused);
    gauge("journal_bytes", "of journals, in use", report_.journal_bytes);
    const auto counter = [&](const char* family, const char* help, auto value) {
      out.counter(family, help, {"role"});
      out.sample({report_.role}, value);
    };
    counter("unit_duplicate_cluster_total",
            "units that waited since another one showed the same cluster",
            report_.duplicate_clusters);
    counter("journal_commits_total", "transactions of journals", report_.journal_commits);
    counter("journal_rebuilds_total", "journals that were damaged and begun anew",
            report_.journal_rebuilds);
    gauge("worker_memory_pressure", "memory is at 80 % of its limit", pressure_ ? 1 : 0);
  }

  void fill_placements(MetricFamilies& out) const {
    out.counter("placement_moves_total", "what went to another host than before",
                {"role", "reason"});
    for (const auto& [reason, count] : report_.placements.moves) {
      out.sample({report_.role, std::string(reason)}, count);
    }
    out.gauge("placement_pending", "what waits for a host", {"role", "reason"});
    for (const auto& [reason, count] : report_.placements.pending) {
      out.sample({report_.role, std::string(reason)}, count);
    }
    out.histogram("schedule_seconds", "how long decisions about hosts took", {"role"});
    out.sample({report_.role}, histogram(report_.placements.decisions));
  }

  /// What the role has besides.
  void fill_own(MetricFamilies& out) const {
    for (std::size_t i = 0; i < report_.families.size(); ++i) {
      const workers::RoleFamily& of = report_.families[i];
      if (of.histogram) {
        fill_histogram(i, out);
        continue;
      }
      out.family({std::string(of.name),
                  std::string(of.help),
                  of.counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge,
                  {of.labels.begin(), of.labels.end()}});
      for (const auto& [key, value] : report_.series) {
        if (key.first == i) {
          out.series(key.second, value);
        }
      }
    }
  }

  void fill_histogram(std::size_t family, MetricFamilies& out) const {
    const workers::RoleFamily& of = report_.families[family];
    std::map<std::vector<std::string>, MetricFamilies::Histogram> all;
    if (of.labels.empty()) {
      all[{}];
    }
    for (const auto& [key, value] : report_.series) {
      if (key.first != family) {
        continue;
      }
      MetricFamilies::Histogram& one = all[{key.second.begin(), std::prev(key.second.end())}];
      if (key.second.back() == "sum") {
        one.sample_sum = value;
        continue;
      }
      const double bound = std::strtod(key.second.back().c_str(), nullptr);
      one.bucket.push_back({static_cast<std::uint64_t>(value), bound});
      one.sample_count = std::max(one.sample_count, static_cast<std::uint64_t>(value));
    }
    out.family({std::string(of.name),
                std::string(of.help),
                prometheus::MetricType::Histogram,
                {of.labels.begin(), of.labels.end()}});
    for (auto& [labels, one] : all) {
      std::sort(one.bucket.begin(), one.bucket.end(),
                [](const auto& a, const auto& b) { return a.upper_bound < b.upper_bound; });
      out.series(labels, std::move(one));
    }
  }

  const WorkerReport& report_;
  const bool pressure_;
};

class RestartMetrics final : public MetricSource {
 public:
  explicit RestartMetrics(const std::vector<std::pair<std::string, std::uint64_t>>& restarts)
      : restarts_(restarts) {}
  void fill(MetricFamilies& out) const override {
    out.counter("worker_role_restarts_total", "starts of a role's process after the first",
                {"role"});
    for (const auto& [role, count] : restarts_) {
      out.sample({role}, count);
    }
  }

 private:
  const std::vector<std::pair<std::string, std::uint64_t>>& restarts_;
};

}  // namespace

std::vector<MetricAbout> worker_metrics_about() {
  WorkerReport nothing;
  for (const std::string& name : worker_roles()) {
    WorkerRoleConfig role;
    role.name = name;
    for (const workers::RoleFamily& family : make_worker_role(role).families) {
      nothing.families.push_back(family);
    }
  }
  const std::vector<std::pair<std::string, std::uint64_t>> none;
  MetricFamilies families;
  ProcessMetrics("worker", {}).fill(families);
  WorkerMetrics(nothing, false).fill(families);
  RestartMetrics(none).fill(families);
  return families.about();
}

std::string worker_metrics_text(const WorkerReport& report, bool pressure) {
  const WorkerMetrics metrics(report, pressure);
  return metrics_text({&metrics});
}

std::string process_metrics_text() {
  const ProcessMetrics metrics("worker", {});
  return metrics_text({&metrics});
}

std::string restart_metrics_text(
    const std::vector<std::pair<std::string, std::uint64_t>>& restarts) {
  const RestartMetrics metrics(restarts);
  return metrics_text({&metrics});
}

}  // namespace kintsugi::server
