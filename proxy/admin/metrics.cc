#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "auth/reserved_identity.h"
#include "base/guard.h"
#include "proxy/admin/admin.h"
#include "proxy/admin/internal/metrics_text.h"

namespace kintsugi::proxy {
namespace {

/// Shards that did not answer when they were asked last, by whatever loop: before so much has
/// failed that requests are no longer sent there (AGG-1004).
std::set<std::string> silent_shards(const topology::Feed& feed,
                                    const std::vector<LoopReport>& loops) {
  struct Last {
    TimePoint failed{}, answered{};
  };
  std::map<std::string, Last> last;
  const auto add = [&last](const auto& name, const auto& seen) {
    Last& one = last[name];
    one.failed = std::max(one.failed, seen.failed_at);
    one.answered = std::max(one.answered, seen.answered_at);
  };
  for (const topology::Feed::ShardStatus& shard : feed.status()) {
    add(shard.name, shard);
  }
  for (const LoopReport& loop : loops) {
    for (const LoopReport::Upstream& upstream : loop.upstreams) {
      add(upstream.shard, upstream);
    }
  }
  std::set<std::string> out;
  for (const auto& [name, one] : last) {
    if (one.failed > one.answered) {
      out.insert(name);
    }
  }
  return out;
}

void shard_families(MetricsText& text, const topology::Feed& feed,
                    const std::vector<LoopReport>& loops) {
  const topology::Snapshot& index = feed.index();
  const std::set<std::string> silent = silent_shards(feed, loops);
  text.family("kintsugi_shard_up", "gauge", "1 while the shard answers probes and requests");
  for (const auto& shard : index.shards()) {
    const bool up = shard->up && !silent.contains(shard->spec.name);
    text.sample(shard_label(shard->spec.name), up ? 1 : 0);
  }
  text.family("kcp_indexed_logicalclusters", "gauge", "logical clusters that the shard owns");
  for (const auto& shard : index.shards()) {
    text.sample(shard_label(shard->spec.name), index.owned(shard->id));
  }
  text.family("kintsugi_index_synced", "gauge",
              "1 once the resource of the shard was listed completely");
  for (const auto& shard : index.shards()) {
    for (std::size_t i = 0; i < topology::kResources; ++i) {
      const auto resource = static_cast<topology::Resource>(i);
      text.sample(shard_label(shard->spec.name) + ",resource=\"" +
                      std::string(resource_name(resource)) + "\"",
                  shard->is_synced(resource) ? 1 : 0);
    }
  }
  text.family("kintsugi_index_objects", "gauge", "objects that the index follows");
  for (const topology::Feed::ShardStatus& shard : feed.status()) {
    for (std::size_t i = 0; i < topology::kResources; ++i) {
      const auto resource = static_cast<topology::Resource>(i);
      text.sample(
          shard_label(shard.name) + ",resource=\"" + std::string(resource_name(resource)) + "\"",
          shard.resources[i].objects);
    }
  }
  text.family("kintsugi_untrusted_fact_total", "counter",
              "values in objects that were not believed, by what they claim");
  for (std::size_t i = 0; i < topology::kUntrustedFacts; ++i) {
    const auto fact = static_cast<topology::UntrustedFact>(i);
    text.sample("fact=\"" + std::string(untrusted_fact_name(fact)) + "\"", index.untrusted(fact));
  }
  text.single("kintsugi_topology_conflicting_clusters", "gauge",
              "logical clusters that several shards report", index.conflicts());
  const topology::Feed::Stats stats = feed.stats();
  text.single("kintsugi_index_changes_total", "counter", "events that changed a routing fact",
              stats.changes);
  text.single("kintsugi_index_bytes", "gauge", "heap of the routing facts", index.bytes());
}

/// What clients cost: SE-090, SE-136.
void cost_families(MetricsText& text, const std::vector<LoopReport>& loops) {
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
  text.family("kintsugi_abuse_total", "counter", "what clients did that costs and brings nothing");
  for (std::size_t i = 0; i < http::kAbuseKinds; ++i) {
    text.sample("kind=\"" + std::string(http::abuse_name(static_cast<http::Abuse>(i))) + "\"",
                abuse.counts[i]);
  }
  text.family("kintsugi_memory_bytes", "gauge", "what clients make the process keep");
  text.sample("account=\"bodies\"", memory[static_cast<std::size_t>(MemoryAccount::kBodies)]);
  text.sample("account=\"lists\"", memory[static_cast<std::size_t>(MemoryAccount::kLists)]);
  text.single("kintsugi_memory_budget_bytes", "gauge", "what the accounts have parts of", budget);
}

void traffic_families(MetricsText& text, const std::vector<LoopReport>& loops) {
  ForwardStats sum;
  LookupStats lookups;
  ShardReviews::Stats reviews;
  std::size_t connections = 0, streams = 0;
  std::uint64_t handshake_errors = 0, protocol_errors = 0;
  std::uint64_t no_request = 0, slow_readers = 0, handed_over = 0, served_refused = 0;
  std::uint64_t crowded_bodies = 0;
  for (const LoopReport& loop : loops) {
    sum.requests += loop.forward.requests;
    sum.retries += loop.forward.retries;
    sum.failures += loop.forward.failures;
    sum.bytes_up += loop.forward.bytes_up;
    sum.bytes_down += loop.forward.bytes_down;
    sum.identity_headers_stripped += loop.forward.identity_headers_stripped;
    sum.streams += loop.forward.streams;
    sum.watches += loop.forward.watches;
    for (std::size_t i = 0; i < 6; ++i) {
      sum.code_class[i] += loop.forward.code_class[i];
    }
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
  text.single("kintsugi_caught_exceptions_total", "counter",
              "faults of the program that ended one request instead of the process",
              caught_exceptions());
  text.single("kintsugi_connections", "gauge", "client connections", connections);
  text.single("kintsugi_client_streams", "gauge", "requests of clients that are open", streams);
  text.single("kintsugi_tls_handshake_errors_total", "counter", "failed handshakes of clients",
              handshake_errors);
  text.single("kintsugi_protocol_errors_total", "counter", "connections ended for malformed HTTP",
              protocol_errors);
  text.family("kintsugi_timeouts_total", "counter", "clients that were too slow");
  text.sample("limit=\"request\"", no_request);
  text.sample("limit=\"slow-reader\"", slow_readers);
  text.single("kintsugi_connections_handed_over_total", "counter",
              "connections that went to a loop with fewer", handed_over);
  text.family("kintsugi_limited_total", "counter", "requests refused with 429");
  text.sample("limit=\"served\"", served_refused);
  text.sample("limit=\"bodies\"", crowded_bodies);
  text.single("kintsugi_forwarded_requests_total", "counter", "requests sent to shards",
              sum.requests);
  text.family("kintsugi_forwarded_responses_total", "counter", "answers of shards by class");
  for (std::size_t i = 1; i < 6; ++i) {
    text.sample("code=\"" + std::to_string(i) + "xx\"", sum.code_class[i]);
  }
  text.family("kintsugi_streams", "gauge", "forwarded requests that are open");
  text.sample("kind=\"watch\"", sum.watches);
  text.sample("kind=\"other\"", sum.streams - sum.watches);
  text.family("kintsugi_stream_bytes_total", "counter", "body bytes forwarded");
  text.sample("direction=\"request\"", sum.bytes_up);
  text.sample("direction=\"response\"", sum.bytes_down);
  text.single("kintsugi_retries_total", "counter", "requests sent again", sum.retries);
  text.single("kintsugi_forward_failures_total", "counter", "requests that a shard did not answer",
              sum.failures);
  text.single("kintsugi_identity_headers_stripped_total", "counter",
              "forged identity headers removed", sum.identity_headers_stripped);
  text.family("kintsugi_identity_dropped_total", "counter",
              "groups, extras and users that only the system gives, by kind");
  for (const auth::DroppedCount& dropped : auth::dropped_counts()) {
    text.sample("kind=\"" + std::string(dropped.kind) + "\"", dropped.count);
  }
  text.family("kintsugi_lookups_total", "counter", "resolutions of a cluster path");
  text.sample("result=\"resolved\"", lookups.resolved);
  text.sample("result=\"not-known\"", lookups.not_known);
  text.sample("result=\"unavailable\"", lookups.unavailable);
  for (std::size_t i = 1; i < 7; ++i) {
    const auto reason = static_cast<topology::NotFoundReason>(i);
    text.sample("result=\"" + std::string(topology::reason_name(reason)) + "\"",
                lookups.not_found[i]);
  }
  text.family("kintsugi_authz_reviews_total", "counter", "SubjectAccessReviews asked at shards");
  text.sample("decision=\"allowed\"", reviews.allowed);
  text.sample("decision=\"denied\"", reviews.denied);
  text.sample("decision=\"failed\"", reviews.failed);
  text.family("kintsugi_slice_shard_apply_ignored_total", "counter",
              "reports of shards about slices that were answered and not stored");
  std::map<std::string, std::uint64_t> applies;
  for (const LoopReport& loop : loops) {
    for (const auto& [shard, count] : loop.ignored_applies) {
      applies[shard] += count;
    }
  }
  for (const auto& [shard, count] : applies) {
    text.sample(shard_label(shard), count);
  }
}

void upstream_families(MetricsText& text, const std::vector<LoopReport>& loops) {
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
    text.family(column.name, "gauge", column.help);
    for (const LoopReport& loop : loops) {
      for (const LoopReport::Upstream& upstream : loop.upstreams) {
        const std::string labels =
            shard_label(upstream.shard) + ",loop=\"" + loop.name + "\",kind=";
        text.sample(labels + "\"watch\"", column.value(upstream.watch));
        text.sample(labels + "\"read\"", column.value(upstream.read));
        text.sample(labels + "\"write\"", column.value(upstream.write));
      }
    }
  }
}

void slice_families(MetricsText& text, const TopologyReport& topology) {
  text.family("kintsugi_slice_endpoints", "gauge", "endpoints of all slices");
  for (const std::string mode : {"direct", "proxied", "aggregated"}) {
    const auto found = topology.slices.endpoints.find(mode);
    text.sample("mode=\"" + mode + "\"",
                found != topology.slices.endpoints.end() ? found->second : 0);
  }
  text.family("kintsugi_slices_not_ready", "gauge", "slices whose EndpointURLsReady is False");
  for (const auto& [reason, count] : topology.slices.not_ready) {
    text.sample("reason=\"" + reason + "\"", count);
  }
  text.family("kintsugi_partitions_per_set", "histogram", "Partitions of a PartitionSet");
  std::uint64_t sum = 0;
  for (const std::size_t count : topology.partitions_of_sets) {
    sum += count;
  }
  for (const std::size_t bound : {0U, 1U, 2U, 5U, 10U, 20U, 50U, 100U}) {
    text.sample_of(
        "_bucket", "le=\"" + std::to_string(bound) + "\"",
        std::count_if(topology.partitions_of_sets.begin(), topology.partitions_of_sets.end(),
                      [bound](std::size_t count) { return count <= bound; }));
  }
  text.sample_of("_bucket", "le=\"+Inf\"", topology.partitions_of_sets.size());
  text.sample_of("_sum", "", sum);
  text.sample_of("_count", "", topology.partitions_of_sets.size());
}

void topology_families(MetricsText& text, const TopologyReport& topology) {
  const auto label = [](std::string_view name, std::string_view value) {
    return std::string(name) + "=\"" + std::string(value) + "\"";
  };
  text.family("kintsugi_topology_writes_total", "counter", "writes of the controllers");
  for (const TopologyReport::Resource& one : topology.resources) {
    const std::string resource = label("resource", one.resource) + ",op=";
    text.sample(resource + "\"create\"", one.writes.created);
    text.sample(resource + "\"update\"", one.writes.updated);
    text.sample(resource + "\"delete\"", one.writes.deleted);
  }
  text.family("kintsugi_topology_objects", "gauge", "objects that the proxy stores");
  for (const TopologyReport::Resource& one : topology.resources) {
    text.sample(label("resource", one.resource), one.stored);
  }
  std::map<std::string, std::uint64_t> errors;
  for (const TopologyReport::Resource& one : topology.resources) {
    for (const auto& [cause, count] : one.writes.failed) {
      errors[label("kind", one.kind) + "," + label("reason", cause)] += count;
    }
  }
  text.family("kintsugi_topology_reconcile_errors_total", "counter",
              "writes of controllers that failed, lost races too");
  for (const auto& [labels, count] : errors) {
    text.sample(labels, count);
  }
  text.family("kintsugi_topology_reconcile_seconds", "histogram", "one run for one object");
  for (const TopologyReport::Kind& one : topology.kinds) {
    write_histogram(text, label("kind", one.kind), one.times.work);
  }
  text.family("kintsugi_topology_lag_seconds", "histogram",
              "from an event to the end of the run that it caused");
  for (const TopologyReport::Kind& one : topology.kinds) {
    write_histogram(text, label("kind", one.kind), one.times.lag);
  }
  slice_families(text, topology);
}

}  // namespace

std::string render_metrics(const topology::Feed& feed, const std::vector<LoopReport>& loops,
                           const TopologyReport& topology) {
  MetricsText text;
  shard_families(text, feed, loops);
  cost_families(text, loops);
  traffic_families(text, loops);
  merge_families(text, loops);
  upstream_families(text, loops);
  text.family("kintsugi_reloads_total", "counter", "reloads by the key that names the file");
  for (const ReloadCount& reload : topology.reloads) {
    const std::string label = "file=\"" + reload.key + "\",result=";
    text.sample(label + "\"ok\"", reload.taken);
    text.sample(label + "\"error\"", reload.refused);
  }
  text.single("kintsugi_audit_events_total", "counter", "lines for the audit log",
              topology.audit_events);
  text.single("kintsugi_audit_dropped_total", "counter", "those that could not be written",
              topology.audit_dropped);
  text.single("kintsugi_draining", "gauge", "1 once SIGTERM came", topology.draining ? 1 : 0);
  topology_families(text, topology);
  return text.take();
}

}  // namespace kintsugi::proxy
