#include "proxy/admin/metrics.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "auth/audit_totals.h"
#include "auth/reserved_identity.h"
#include "base/process_metrics.h"
#include "proxy/admin/admin.h"
#include "proxy/admin/shard_health.h"
#include "proxy/forwarding/move_holds.h"
#include "proxy/forwarding/request_tally.h"
#include "store/store_totals.h"

namespace kintsugi::proxy {
namespace {

void shard_families(MetricFamilies& out, const IndexReport& report,
                    const std::vector<LoopReport>& loops) {
  const topology::Snapshot& index = report.index;
  const std::set<std::string> silent = silent_shards(report.shards, loops);
  out.gauge("kintsugi_shard_up", "1 while the shard answers probes and requests", {"shard"});
  for (const auto& shard : index.shards()) {
    const bool up = shard->up && !silent.contains(shard->spec.name);
    out.sample({shard->spec.name}, up ? 1 : 0);
  }
  out.gauge("kcp_indexed_logicalclusters", "logical clusters that the shard owns", {"shard"});
  for (const auto& shard : index.shards()) {
    out.sample({shard->spec.name}, index.owned(shard->id));
  }
  out.gauge("kintsugi_index_synced", "1 once the resource of the shard was listed completely",
            {"shard", "resource"});
  for (const auto& shard : index.shards()) {
    for (std::size_t i = 0; i < topology::kResources; ++i) {
      const auto resource = static_cast<topology::Resource>(i);
      out.sample({shard->spec.name, resource_name(resource)}, shard->is_synced(resource) ? 1 : 0);
    }
  }
  out.gauge("kintsugi_index_lag_seconds",
            "for how long the shard has not answered the index; 0 while it does", {"shard"});
  const TimePoint now = Clock::now();
  for (const topology::Feed::ShardStatus& shard : report.shards) {
    out.sample({shard.name}, index_lag(shard, now));
  }
  out.gauge("kintsugi_index_objects", "objects that the index follows", {"shard", "resource"});
  for (const topology::Feed::ShardStatus& shard : report.shards) {
    for (std::size_t i = 0; i < topology::kResources; ++i) {
      const auto resource = static_cast<topology::Resource>(i);
      out.sample({shard.name, resource_name(resource)}, shard.resources[i].objects);
    }
  }
  out.counter("kintsugi_untrusted_fact_total",
              "values in objects that were not believed, by what they claim", {"fact"});
  for (std::size_t i = 0; i < topology::kUntrustedFacts; ++i) {
    const auto fact = static_cast<topology::UntrustedFact>(i);
    out.sample({untrusted_fact_name(fact)}, index.untrusted(fact));
  }
  out.gauge("kintsugi_topology_conflicting_clusters", "logical clusters that several shards report",
            index.conflicts());
  out.counter("kintsugi_index_changes_total", "events that changed a routing fact", report.changes);
  out.gauge("kintsugi_index_bytes", "heap of the routing facts", index.bytes());
}

/// What clients cost: SE-090, SE-136.
void cost_families(MetricFamilies& out, const std::vector<LoopReport>& loops) {
  http::AbuseCounters abuse;
  std::array<std::size_t, kMemoryAccounts> memory{};
  std::size_t budget = 0;
  for (const LoopReport& loop : loops) {
    for (std::size_t i = 0; i < http::kAbuseKinds; ++i) {
      abuse.counts[i] += loop.listener.abuse.counts[i];
    }
    abuse.counts[static_cast<std::size_t>(http::Abuse::kSlowBody)] += loop.late_bodies;
    for (std::size_t i = 0; i < kMemoryAccounts; ++i) {
      memory[i] += loop.memory[i];
    }
    budget = std::max(budget, loop.memory_budget);
  }
  out.counter("kintsugi_abuse_total", "what clients did that costs and brings nothing", {"kind"});
  for (std::size_t i = 0; i < http::kAbuseKinds; ++i) {
    out.sample({http::abuse_name(static_cast<http::Abuse>(i))}, abuse.counts[i]);
  }
  out.gauge("kintsugi_memory_bytes", "what clients make the process keep", {"account"});
  out.sample({"bodies"}, memory[static_cast<std::size_t>(MemoryAccount::kBodies)]);
  out.sample({"lists"}, memory[static_cast<std::size_t>(MemoryAccount::kLists)]);
  out.gauge("kintsugi_memory_budget_bytes", "what the accounts have parts of", budget);
}

void traffic_families(MetricFamilies& out, const std::vector<LoopReport>& loops,
                      const serving::ProcessLimits& limits) {
  std::uint64_t stripped = 0;
  OverheadTimes overhead;
  MoveHoldStats held;
  LookupStats lookups;
  ShardReviews::Stats reviews;
  std::size_t connections = 0, streams = 0;
  std::uint64_t handshake_errors = 0, protocol_errors = 0;
  std::uint64_t no_request = 0, slow_readers = 0, handed_over = 0, served_refused = 0;
  std::uint64_t crowded_bodies = 0;
  for (const LoopReport& loop : loops) {
    stripped += loop.forward.identity_headers_stripped;
    overhead.add(loop.forward.overhead);
    held.add(loop.forward.held);
    lookups.resolved += loop.lookup.resolved;
    lookups.not_known += loop.lookup.not_known;
    lookups.unavailable += loop.lookup.unavailable;
    for (std::size_t i = 0; i < 7; ++i) {
      lookups.not_found[i] += loop.lookup.not_found[i];
    }
    reviews.allowed += loop.reviews.allowed + loop.merge.reviews_allowed;
    reviews.denied += loop.reviews.denied + loop.merge.reviews_denied;
    reviews.failed += loop.reviews.failed + loop.merge.reviews_failed;
    connections += loop.listener.connections;
    streams += loop.listener.streams;
    handshake_errors += loop.listener.handshake_errors;
    protocol_errors += loop.listener.protocol_errors;
    no_request += loop.listener.no_request;
    slow_readers += loop.listener.slow_readers;
    handed_over += loop.listener.handed_over;
    served_refused += loop.served_refused;
    crowded_bodies += loop.crowded_bodies;
  }
  out.gauge("kintsugi_connections", "client connections", connections);
  out.gauge("kintsugi_client_streams", "requests of clients that are open", streams);
  out.counter("kintsugi_tls_handshake_errors_total", "failed handshakes of clients",
              handshake_errors);
  out.counter("kintsugi_protocol_errors_total", "connections ended for malformed HTTP",
              protocol_errors);
  out.counter("kintsugi_timeouts_total", "clients that were too slow", {"limit"});
  out.sample({"request"}, no_request);
  out.sample({"slow-reader"}, slow_readers);
  out.counter("kintsugi_connections_handed_over_total",
              "connections that went to a loop with fewer", handed_over);
  out.counter("kintsugi_limited_total", "requests refused with 429", {"limit"});
  out.sample({"served"}, served_refused);
  out.sample({"bodies"}, crowded_bodies);
  limits.fill_limited(out);
  out.histogram("kintsugi_request_overhead_seconds",
                "forwarded requests from their heads until they are sent the first time", {});
  out.sample({}, buckets_of(OverheadTimes::kBounds, overhead.counts, overhead.sum));
  out.gauge("kintsugi_move_held_requests", "requests that wait because their logical cluster moves",
            held.waiting);
  out.counter("kintsugi_move_held_total", "requests that had to wait for a move, by outcome",
              {"outcome"});
  out.sample({"sent"}, held.held - held.given_up - held.waiting);
  out.sample({"given-up"}, held.given_up);
  out.sample({"no-room"}, held.refused);
  out.counter("kintsugi_identity_headers_stripped_total", "forged identity headers removed",
              stripped);
  out.counter("kintsugi_identity_dropped_total",
              "groups, extras and users that only the system gives, by kind", {"kind"});
  for (const auth::DroppedCount& dropped : auth::dropped_counts()) {
    out.sample({dropped.kind}, dropped.count);
  }
  out.counter("kintsugi_lookups_total", "resolutions of a cluster path", {"result"});
  out.sample({"resolved"}, lookups.resolved);
  out.sample({"not-known"}, lookups.not_known);
  out.sample({"unavailable"}, lookups.unavailable);
  for (std::size_t i = 1; i < 7; ++i) {
    const auto reason = static_cast<topology::NotFoundReason>(i);
    out.sample({topology::reason_name(reason)}, lookups.not_found[i]);
  }
  out.counter("kintsugi_authz_reviews_total", "SubjectAccessReviews asked at shards", {"decision"});
  out.sample({"allowed"}, reviews.allowed);
  out.sample({"denied"}, reviews.denied);
  out.sample({"failed"}, reviews.failed);
  out.counter("kintsugi_slice_shard_apply_ignored_total",
              "reports of shards about slices that were answered and not stored", {"shard"});
  std::map<std::string, std::uint64_t> applies;
  for (const LoopReport& loop : loops) {
    for (const auto& [shard, count] : loop.ignored_applies) {
      applies[shard] += count;
    }
  }
  for (const auto& [shard, count] : applies) {
    out.sample({shard}, count);
  }
}

/// What was forwarded, by the server that it went to.
void forward_families(MetricFamilies& out, const TallyByServer& servers) {
  out.counter("kintsugi_requests_total",
              "requests sent to shards and backends; code 0: they ended before an answer",
              {"shard", "verb", "code"});
  for (const auto& [name, server] : servers) {
    for (const auto& [what, count] : server.requests) {
      out.sample({name, std::string(what.first), std::to_string(what.second)}, count);
    }
  }
  out.gauge("kintsugi_streams", "forwarded requests that are open", {"shard", "kind"});
  for (const auto& [name, server] : servers) {
    out.sample({name, "watch"}, server.watches);
    out.sample({name, "other"}, server.streams - server.watches);
  }
  out.counter("kintsugi_stream_bytes_total", "body bytes forwarded", {"shard", "direction"});
  for (const auto& [name, server] : servers) {
    out.sample({name, "request"}, server.up);
    out.sample({name, "response"}, server.down);
  }
  struct Column {
    std::string_view name, help;
    std::array<std::uint64_t, kForwardFaults> ServerTally::*counts;
  };
  static constexpr Column kColumns[] = {
      {"kintsugi_retries_total", "requests sent again", &ServerTally::retries},
      {"kintsugi_forward_failures_total", "requests without an answer of the shard, or a whole one",
       &ServerTally::failures}};
  for (const Column& column : kColumns) {
    out.counter(column.name, column.help, {"shard", "reason"});
    for (const auto& [name, server] : servers) {
      for (std::size_t i = 0; i < kForwardFaults; ++i) {
        out.sample({name, std::string(forward_fault_name(static_cast<ForwardFault>(i)))},
                   (server.*column.counts)[i]);
      }
    }
  }
}

/// What kcp's front proxy shows, by its names.
void kcp_families(MetricFamilies& out, const topology::Snapshot& index,
                  const std::vector<LoopReport>& loops) {
  RequestTimes times;
  TallyByServer servers;
  std::map<std::string, net::UpstreamStats> tls;
  for (const LoopReport& loop : loops) {
    times.add(loop.forward.times);
    for (const auto& [server, tally] : loop.forward.servers) {
      servers[server].add(tally);
    }
    for (const LoopReport::Upstream& upstream : loop.upstreams) {
      net::UpstreamStats& sum = tls[upstream.shard];
      for (const net::UpstreamStats* one : {&upstream.watch, &upstream.read, &upstream.write}) {
        sum.tls_unknown_ca += one->tls_unknown_ca;
        sum.tls_expired += one->tls_expired;
        sum.tls_hostname += one->tls_hostname;
        sum.tls_cipher += one->tls_cipher;
        sum.tls_other += one->tls_other;
      }
    }
  }
  out.histogram("proxy_request_duration_seconds",
                "forwarded requests until the end of their answers, without watches and upgrades",
                {"method", "code"});
  for (const auto& [what, row] : times.rows()) {
    out.sample({std::string(what.first), std::to_string(what.second)},
               buckets_of(RequestTimes::kBounds, row.counts, row.sum));
  }
  out.counter("kcp_backend_rq_body_bytes", "body bytes of requests to the shard", {"shard"});
  for (const auto& shard : index.shards()) {
    out.sample({shard->spec.name}, servers[shard->spec.name].up);
  }
  out.counter("kcp_backend_rs_body_bytes", "body bytes of the shard's answers", {"shard"});
  for (const auto& shard : index.shards()) {
    out.sample({shard->spec.name}, servers[shard->spec.name].down);
  }
  out.counter("kcp_listener_tls_connection_error", "failed handshakes with the shard",
              {"shard", "error_type"});
  for (const auto& [shard, sum] : tls) {
    out.sample({shard, "unknown_ca"}, sum.tls_unknown_ca);
    out.sample({shard, "expired_cert"}, sum.tls_expired);
    out.sample({shard, "cipher_mismatch"}, sum.tls_cipher);
    out.sample({shard, "hostname_mismatch"}, sum.tls_hostname);
    out.sample({shard, "other"}, sum.tls_other);
  }
  forward_families(out, servers);
}

void upstream_families(MetricFamilies& out, const std::vector<LoopReport>& loops) {
  struct Column {
    std::string_view name, help;
    std::size_t (*value)(const net::UpstreamStats&);
  };
  static constexpr Column kColumns[] = {
      {"kintsugi_shard_connections", "connections to the shard",
       [](const net::UpstreamStats& s) { return s.connections; }},
      {"kintsugi_shard_upstream_streams", "streams open at the shard",
       [](const net::UpstreamStats& s) { return s.streams; }},
      {"kintsugi_shard_queue_length", "streams that wait for a connection",
       [](const net::UpstreamStats& s) { return s.queued; }},
  };
  for (const Column& column : kColumns) {
    out.gauge(column.name, column.help, {"shard", "kind"});
    std::map<std::string, std::array<std::size_t, 3>> sums;
    for (const LoopReport& loop : loops) {
      for (const LoopReport::Upstream& upstream : loop.upstreams) {
        auto& sum = sums[upstream.shard];
        sum[0] += column.value(upstream.watch);
        sum[1] += column.value(upstream.read);
        sum[2] += column.value(upstream.write);
      }
    }
    for (const auto& [shard, sum] : sums) {
      out.sample({shard, "watch"}, sum[0]);
      out.sample({shard, "read"}, sum[1]);
      out.sample({shard, "write"}, sum[2]);
    }
  }
}

void slice_families(MetricFamilies& out, const TopologyReport& topology) {
  out.gauge("kintsugi_slice_endpoints", "endpoints of all slices", {"mode"});
  for (const std::string mode : {"direct", "proxied", "aggregated"}) {
    const auto found = topology.slices.endpoints.find(mode);
    out.sample({mode}, found != topology.slices.endpoints.end() ? found->second : 0);
  }
  out.gauge("kintsugi_slices_not_ready", "slices whose EndpointURLsReady is False", {"reason"});
  for (const auto& [reason, count] : topology.slices.not_ready) {
    out.sample({reason}, count);
  }
  out.histogram("kintsugi_partitions_per_set", "Partitions of a PartitionSet");
  MetricFamilies::Histogram sets;
  for (const std::size_t count : topology.partitions_of_sets) {
    sets.sample_sum += static_cast<double>(count);
  }
  for (const std::size_t bound : {0U, 1U, 2U, 5U, 10U, 20U, 50U, 100U}) {
    const auto within =
        std::count_if(topology.partitions_of_sets.begin(), topology.partitions_of_sets.end(),
                      [bound](std::size_t count) { return count <= bound; });
    sets.bucket.push_back({static_cast<std::uint64_t>(within), static_cast<double>(bound)});
  }
  sets.sample_count = topology.partitions_of_sets.size();
  sets.bucket.push_back({sets.sample_count, std::numeric_limits<double>::infinity()});
  out.sample({}, std::move(sets));
}

void topology_families(MetricFamilies& out, const TopologyReport& topology) {
  out.counter("kintsugi_topology_writes_total", "writes of the controllers", {"resource", "op"});
  for (const TopologyReport::Resource& one : topology.resources) {
    out.sample({one.resource, "create"}, one.writes.created);
    out.sample({one.resource, "update"}, one.writes.updated);
    out.sample({one.resource, "delete"}, one.writes.deleted);
  }
  out.gauge("kintsugi_topology_objects", "objects that the proxy stores", {"resource"});
  for (const TopologyReport::Resource& one : topology.resources) {
    out.sample({one.resource}, one.stored);
  }
  std::map<std::pair<std::string, std::string>, std::uint64_t> errors;
  for (const TopologyReport::Resource& one : topology.resources) {
    for (const auto& [cause, count] : one.writes.failed) {
      errors[{std::string(one.kind), std::string(cause)}] += count;
    }
  }
  out.counter("kintsugi_topology_reconcile_errors_total",
              "writes of controllers that failed, lost races too", {"kind", "reason"});
  for (const auto& [what, count] : errors) {
    out.sample({what.first, what.second}, count);
  }
  out.histogram("kintsugi_topology_reconcile_seconds", "one run for one object", {"kind"});
  for (const TopologyReport::Kind& one : topology.kinds) {
    out.sample({one.kind}, histogram_of(one.times.work));
  }
  out.histogram("kintsugi_topology_lag_seconds",
                "from an event to the end of the run that it caused", {"kind"});
  for (const TopologyReport::Kind& one : topology.kinds) {
    out.sample({one.kind}, histogram_of(one.times.lag));
  }
  slice_families(out, topology);
}

/// Clusters of a hub, by what they are and what is wrong with them (GR-704).
void fleet_families(MetricFamilies& out, const TopologyReport& topology) {
  const FleetReport none;
  const FleetReport& fleet = topology.fleet ? *topology.fleet : none;
  std::map<std::pair<std::string, std::string>, std::size_t> counts;
  for (const topology::FleetRow& row : fleet.rows) {
    ++counts[{std::string(row.state), std::string(fleet_reason_name(row.fault.reason))}];
  }
  out.gauge("kintsugi_fleet_clusters",
            "clusters of the hub by state (joining, member, in doubt, leaving) and what is wrong",
            {"state", "reason"});
  for (const auto& [key, count] : counts) {
    out.sample({key.first, key.second}, count);
  }
  out.counter("kintsugi_fleet_faults_total", "faults of clusters of the hub", {"reason"});
  for (std::size_t i = 1; topology.fleet && i < topology::kFleetReasons; ++i) {
    out.sample({std::string(topology::fleet_reason_name(static_cast<topology::FleetReason>(i)))},
               fleet.faults[i]);
  }
  out.gauge("kintsugi_fleet_list_refused", "status with which the hub refuses a list now, or 0",
            {"path"});
  for (const FleetReport::List& list : fleet.lists) {
    out.sample({list.path}, list.status);
  }
}

}  // namespace

void ProxyMetrics::fill(MetricFamilies& out) const {
  shard_families(out, index_, loops_);
  cost_families(out, loops_);
  const serving::ProcessLimits none;
  const serving::ProcessLimits& limits = topology_.limits != nullptr ? *topology_.limits : none;
  traffic_families(out, loops_, limits);
  kcp_families(out, index_.index, loops_);
  limits.fill(out);
  const serving::MemoryPressure calm(1);
  (topology_.pressure != nullptr ? *topology_.pressure : calm).fill(out);
  upstream_families(out, loops_);
  out.counter("kintsugi_reloads_total", "reloads by the key that names the file",
              {"file", "result"});
  for (const ReloadCount& reload : topology_.reloads) {
    out.sample({reload.key, "ok"}, reload.taken);
    out.sample({reload.key, "error"}, reload.refused);
  }
  auth::fill_audit_metrics(out);
  store::store_totals().fill(out);
  auth::fill_access_metrics(out);
  out.gauge("kintsugi_draining", "1 once SIGTERM came", topology_.draining ? 1 : 0);
  topology_families(out, topology_);
  fleet_families(out, topology_);
}

std::string render_metrics(const topology::Feed& feed, const std::vector<LoopReport>& loops,
                           const TopologyReport& topology) {
  const IndexReport index{feed.index(), feed.status(), feed.stats().changes};
  std::vector<CertificateEnd> certificates = topology.certificates;
  for (CertificateEnd& one : peer_ends(index.shards, loops)) {
    certificates.push_back(std::move(one));
  }
  const ProcessMetrics process("proxy", std::move(certificates));
  const ProxyMetrics proxy(index, loops, topology);
  const MergeMetrics merge(loops);
  return metrics_text({&process, &proxy, &merge});
}

std::vector<MetricAbout> metrics_about() {
  const topology::Snapshot none;
  const IndexReport index{none, {}, 0};
  const std::vector<LoopReport> loops;
  const TopologyReport topology;
  MetricFamilies out;
  ProcessMetrics("proxy", {}).fill(out);
  ProxyMetrics(index, loops, topology).fill(out);
  MergeMetrics(loops).fill(out);
  return out.about();
}

}  // namespace kintsugi::proxy
