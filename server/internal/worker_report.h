#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "shards/informer.h"
#include "workers/runtime/control/controller.h"
#include "workers/runtime/queue/duration_histogram.h"
#include "workers/runtime/worker.h"

/// What one role counts, as plain numbers that cross from its loop to whoever shows them.
namespace kintsugi::server {

/// Controllers of the same name in all units, together.
struct ControllerReport {
  std::uint64_t most = 0, running = 0;
  workers::ControllerCounts counts;
  std::array<std::uint64_t, 3> depth{};  ///< kInitial, kRetry, kLive
  std::uint64_t adds = 0, retries = 0;
  workers::DurationHistogram queued, worked;
  Duration unfinished{}, longest{};
  void add(const workers::Controller& controller, TimePoint now);
};

/// Requests to one host.
struct ClientReport {
  std::map<std::pair<std::string, std::string>, std::uint64_t> requests;  ///< (code, method)
  std::uint64_t answers = 0, withheld = 0;
  Duration waited{};
  void add(const workers::ApiCounts& counts);
};

/// Caches of one resource.
struct ReflectorReport {
  std::uint64_t objects = 0, guarded = 0;
  std::array<std::uint64_t, shards::kRelistReasons> relists{};
};

struct WorkerReport {
  std::string role;
  std::uint64_t units = 0, refused = 0;                 ///< endpoints
  std::uint64_t duplicate_clusters = 0;                 ///< RT-14
  std::map<std::string, ControllerReport> controllers;  ///< by name
  std::map<std::string, ClientReport> clients;          ///< by host and port
  std::map<std::string, ReflectorReport> reflectors;    ///< by resource
  std::uint64_t partitions = 0, generation = 0;
  workers::DurationHistogram handovers;       ///< of partitions that came from other workers
  bool coordinates = false;                   ///< the ring of at least one unit
  std::vector<workers::RoleFamily> families;  ///< of the role's own
  workers::RoleSeries series;
  workers::PlacementCounts placements;
  std::uint64_t journal_bytes = 0, journal_commits = 0, journal_rebuilds = 0;
  /// Of one worker of the role. On its loop.
  void add(const workers::Worker& worker, TimePoint now);
};

/// "greetings" of "/services/…/clusters/*/apis/…/greetings".
[[nodiscard]] std::string resource_of(std::string_view target);

/// The page of a role's families, text format 0.0.4. @param pressure  RT-5
[[nodiscard]] std::string worker_metrics_text(const WorkerReport& report, bool pressure);

/// The families `process_…` of this process.
[[nodiscard]] std::string process_metrics_text();
/// `worker_role_restarts_total` of a supervisor. @param restarts  by role
[[nodiscard]] std::string restart_metrics_text(
    const std::vector<std::pair<std::string, std::uint64_t>>& restarts);

}  // namespace kintsugi::server
