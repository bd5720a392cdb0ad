#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aggregation/watch/stream_share.h"
#include "base/certificate_ends.h"
#include "base/memory_budget.h"
#include "endpointslice/slice_controller.h"
#include "http/handler.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/work_queue.h"
#include "proxy/admin/fleet_report.h"
#include "proxy/explain/explain.h"
#include "proxy/handler.h"
#include "proxy/reviews/shard_reviews.h"
#include "serving/memory_pressure.h"
#include "serving/process_limits.h"
#include "serving/watch_list.h"
#include "topology/feed.h"
#include "topology/objects.h"

namespace kintsugi::serving {
class LogControl;
}

namespace kintsugi::proxy {

/// What one data loop tells the admin side.
struct LoopReport {
  std::string name;
  net::Loop::Stats loop;
  net::ListenerStats listener;
  ForwardStats forward;
  LookupStats lookup;
  aggregation::MergeStats merge;
  std::vector<aggregation::GroupReport> groups;  ///< of merged watches
  aggregation::SequenceBook::Stats sequences;    ///< of the process, in one loop's report
  aggregation::StreamHomes::Stats relays;        ///< the same
  std::uint32_t slot_generation = 0;
  /// Of `share: reviewed`: what is remembered, and the servers whose grants are followed.
  std::size_t decisions = 0, grant_watches = 0;
  aggregation::DocumentStats documents;
  std::map<std::string, std::uint64_t> ignored_applies;  ///< by shard
  ShardReviews::Stats reviews;
  std::uint64_t served_refused = 0;                   ///< requests over `limits.served`
  std::uint64_t late_bodies = 0, crowded_bodies = 0;  ///< 408 and 429 before a body was whole
  std::array<std::size_t, kMemoryAccounts> memory{};  ///< of the process, in one loop's report
  std::size_t memory_budget = 0;                      ///< the same
  struct Upstream {
    std::string shard;
    TimePoint failed_at{}, answered_at{};  ///< see shards::ShardClient
    net::UpstreamStats watch, read, write;
    std::int64_t certificate_end = 0;  ///< the same
  };
  std::vector<Upstream> upstreams;
  /// Of ReportPart::kWatches only: the first ones of those that are open.
  std::vector<serving::WatchRow> watches;
  std::size_t open_watches = 0;
};

/// What is asked of a loop besides its figures.
enum class ReportPart : std::uint8_t {
  kFigures,
  kWatches,
  kCounts,  ///< less than the figures: neither groups of merged watches nor connections to shards
};

/// What became of the reloads that a followed file caused.
struct ReloadCount {
  std::string key;  ///< of the configuration, which names the file
  std::uint64_t taken = 0, refused = 0;
};

/// Counters of the control loop.
struct TopologyReport {
  /// Of one kind that a controller works off.
  struct Kind {
    std::string_view kind;
    net::WorkQueue::Times times;
  };
  /// Of one resource that controllers write.
  struct Resource {
    std::string_view resource, kind;
    std::size_t stored = 0;
    topology::WriteCounts writes;
  };
  std::vector<Kind> kinds;
  std::vector<Resource> resources;
  endpointslice::SliceController::Census slices;
  std::vector<std::size_t> partitions_of_sets;  ///< status.count of each
  std::vector<ReloadCount> reloads;
  std::optional<FleetReport> fleet;          ///< source `clusterprofiles`
  std::vector<CertificateEnd> certificates;  ///< in force
  bool draining = false;
  std::shared_ptr<const serving::ProcessLimits> limits = {};  ///< of the process; null: none
  std::shared_ptr<const serving::MemoryPressure> pressure;    ///< null: nobody looks
};

struct AdminParams {
  net::Loop& loop;  ///< the control loop
  topology::Feed& feed;
  /// Asks every data loop; `done` runs on the control loop.
  std::function<void(ReportPart part, std::function<void(std::vector<LoopReport>)> done)> collect;
  std::function<TopologyReport()> topology;
  ExplainSources explain;
  std::string config_text;  ///< effective configuration without secrets
  /// Begins to change the key of continue tokens and session tickets.
  std::function<void(std::function<void(Expected<void>)> done)> rotate_keys = {};
  /// The objects of a resource that the proxy stores, of all clusters. Empty: it stores none.
  std::function<void(std::string_view group, std::string_view resource,
                     const std::function<void(const krm::Json&)>& visit)>
      objects = {};
  /// `changed` comes after each change of what `objects` shows, until the handle goes.
  std::function<std::shared_ptr<void>(std::function<void()> changed)> follow = {};
  /// Rows of the workers that the configuration names, as they were told of last; asks them anew
  /// if that was long ago. Empty: none are named.
  std::function<std::vector<krm::Json>()> workers = {};
  /// `done` once `workers` are those of now, within seconds. Empty with it.
  std::function<void(std::function<void()> done)> ask_workers = {};
};

class Console;

/// /metrics, /debug/{shards,routes,streams,loops,config,log} and /explain?path= (R-32); POST of
/// /keys/rotate (GR-210); the console below /ui (OP-701).
/// Served on the admin listener only. Threads: the control loop's.
class AdminHandler final : public http::Handler {
 public:
  explicit AdminHandler(AdminParams params);
  ~AdminHandler() override;
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;
  /// After a reload.
  void set_config_text(std::string text) { params_.config_text = std::move(text); }
  /// The same console, for whom data loops let in.
  [[nodiscard]] Console& console() noexcept { return *console_; }

 private:
  [[nodiscard]] std::unique_ptr<http::RequestHandler> rotate_keys(http::RequestHead head,
                                                                  http::ResponseStream& stream);
  /// /explain?path=&method=, and whether `as` may do that (OP-111).
  [[nodiscard]] std::unique_ptr<http::RequestHandler> explain_request(http::RequestHead head,
                                                                      http::ResponseStream& stream,
                                                                      const krm::Query& query);
  AdminParams params_;
  std::unique_ptr<serving::LogControl> log_;
  std::unique_ptr<Console> console_;
};

/// The Prometheus text of everything.
[[nodiscard]] std::string render_metrics(const topology::Feed& feed,
                                         const std::vector<LoopReport>& loops,
                                         const TopologyReport& topology);

}  // namespace kintsugi::proxy
