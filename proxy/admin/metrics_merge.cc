#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "proxy/admin/metrics.h"

namespace kintsugi::proxy {
namespace {

template <class Map>
void add_all(Map& sum, const Map& more) {
  for (const auto& [what, count] : more) {
    sum[what] += count;
  }
}

/// Counters by shard and reason, of all loops.
void by_shard(MetricFamilies& out, std::string_view name, std::string_view help,
              const std::vector<LoopReport>& loops,
              aggregation::MergeStats::ByShard aggregation::MergeStats::*of) {
  aggregation::MergeStats::ByShard sum;
  for (const LoopReport& loop : loops) {
    add_all(sum, loop.merge.*of);
  }
  out.counter(name, help, {"shard", "reason"});
  for (const auto& [what, count] : sum) {
    out.sample({what.first, what.second}, count);
  }
}

/// What merged lists took, and why shards failed them.
void list_families(MetricFamilies& out, const aggregation::MergeStats& sum) {
  out.histogram("kintsugi_list_seconds", "merged lists; code 0: cut off", {"code"});
  for (const auto& [code, times] : sum.list_times) {
    out.sample({std::to_string(code)}, histogram_of(times));
  }
  out.counter("kintsugi_list_partial_total",
              "merged lists without some shards, as configured or as their requests asked for",
              {"policy"});
  out.sample({"partial"}, sum.lists_partial);
  out.sample({"request"}, sum.lists_partial_asked);
}

/// Failures of shards, as merged reads see them.
void fault_families(MetricFamilies& out, const std::vector<LoopReport>& loops) {
  by_shard(out, "kintsugi_shard_failures_total", "failures of shards in merged reads", loops,
           &aggregation::MergeStats::shard_failures);
  by_shard(out, "kintsugi_resyncs_total", "streams of shards that were asked for again", loops,
           &aggregation::MergeStats::resyncs);
  by_shard(out, "kintsugi_events_dropped_total", "answers and events of shards that no client gets",
           loops, &aggregation::MergeStats::dropped);
  by_shard(out, "kintsugi_watchlist_emulated_total",
           "initial events of a shard that did not end them by itself", loops,
           &aggregation::MergeStats::emulated);
  std::map<std::string, std::uint64_t> out_of_order;
  std::map<std::string, Duration> silent;
  for (const LoopReport& loop : loops) {
    add_all(out_of_order, loop.merge.out_of_order);
    for (const aggregation::GroupReport& group : loop.groups) {
      for (const aggregation::GroupReport::Shard& shard : group.shards) {
        Duration& longest = silent[shard.name];
        longest = std::max(longest, shard.silent);
      }
    }
  }
  out.counter("kintsugi_events_out_of_order_total", "events of shards that came behind newer ones",
              {"shard"});
  for (const auto& [shard, count] : out_of_order) {
    out.sample({shard}, count);
  }
  out.gauge("kintsugi_shard_watch_lag_seconds",
            "for how long merged watches have not heard the shard", {"shard"});
  for (const auto& [shard, lag] : silent) {
    out.sample({shard}, std::chrono::duration<double>(lag).count());
  }
}

/// Merged watches by API group; "": the core group.
void watch_families(MetricFamilies& out, const std::vector<LoopReport>& loops) {
  struct Sum {
    std::size_t watches = 0, groups = 0, queue_bytes = 0;
    std::uint64_t events = 0;
  };
  std::map<std::string, Sum, std::less<>> sums;
  for (const LoopReport& loop : loops) {
    for (const auto& [name, counts] : loop.merge.of_api_group) {
      sums[name].watches += counts.watches;
      sums[name].events += counts.events;
    }
    for (const aggregation::GroupReport& group : loop.groups) {
      ++sums[group.api_group].groups;
      sums[group.api_group].queue_bytes += group.queue_bytes;
    }
  }
  const auto series = [&](auto Sum::*number) {
    for (const auto& [group, sum] : sums) {
      out.sample({group}, sum.*number);
    }
  };
  out.gauge("kintsugi_watch_streams", "merged watches of clients", {"group"});
  series(&Sum::watches);
  out.gauge("kintsugi_watch_groups", "groups of merged watches that share streams", {"group"});
  series(&Sum::groups);
  out.gauge("kintsugi_watch_queue_bytes", "bytes that wait for clients of merged watches",
            {"group"});
  series(&Sum::queue_bytes);
  out.counter("kintsugi_watch_events_total", "events that merged watches sent", {"group"});
  series(&Sum::events);
}

}  // namespace

MetricFamilies::Histogram histogram_of(const net::TimeHistogram& times) {
  const auto seconds_of = [](Duration time) {
    return static_cast<double>(time / std::chrono::microseconds(1)) / 1e6;
  };
  MetricFamilies::Histogram out;
  for (std::size_t i = 0; i < times.counts.size(); ++i) {
    out.sample_count += times.counts[i];
    out.bucket.push_back({out.sample_count, i < net::TimeHistogram::kBounds.size()
                                                ? seconds_of(net::TimeHistogram::kBounds[i])
                                                : std::numeric_limits<double>::infinity()});
  }
  out.sample_sum = seconds_of(times.sum);
  return out;
}

/// Reads over several shards (docs/configuration.md).
void MergeMetrics::fill(MetricFamilies& out) const {
  const std::vector<LoopReport>& loops = loops_;
  aggregation::MergeStats sum;
  std::size_t upstream = 0, unshared = 0, reviewed = 0, log_bytes = 0;
  std::size_t decisions = 0, grant_watches = 0;
  aggregation::DocumentStats documents;
  aggregation::SequenceBook::Stats sequences;
  aggregation::StreamHomes::Stats relays;
  std::uint32_t generation = 0;
  for (const LoopReport& loop : loops) {
    generation = std::max(generation, loop.slot_generation);
    sequences.vectors += loop.sequences.vectors;
    sequences.bytes += loop.sequences.bytes;
    sequences.scopes += loop.sequences.scopes;
    sequences.minted += loop.sequences.minted;
    relays.relays += loop.relays.relays;
    relays.queue_bytes += loop.relays.queue_bytes;
    relays.cut += loop.relays.cut;
    relays.wakes += loop.relays.wakes;
    documents.answered += loop.documents.answered;
    documents.built += loop.documents.built;
    documents.stale += loop.documents.stale;
    documents.differences += loop.documents.differences;
    sum.lists += loop.merge.lists;
    sum.bookmarks += loop.merge.bookmarks;
    sum.indexed += loop.merge.indexed;
    sum.failed += loop.merge.failed;
    sum.evicted_slow += loop.merge.evicted_slow;
    sum.evicted_memory += loop.merge.evicted_memory;
    sum.evicted_drain += loop.merge.evicted_drain;
    sum.evicted_stall += loop.merge.evicted_stall;
    sum.evicted_forbidden += loop.merge.evicted_forbidden;
    sum.evicted_unreviewed += loop.merge.evicted_unreviewed;
    sum.reviews_cached += loop.merge.reviews_cached;
    decisions += loop.decisions;
    grant_watches += loop.grant_watches;
    for (const aggregation::GroupReport& group : loop.groups) {
      upstream += static_cast<std::size_t>(std::count_if(
          group.shards.begin(), group.shards.end(),
          [](const aggregation::GroupReport::Shard& shard) { return !shard.relayed; }));
      unshared += group.readers * group.shards.size();
      reviewed += group.reviewed ? group.readers : 0;
      log_bytes += group.log_bytes;
    }
    add_all(sum.expired, loop.merge.expired);
    add_all(sum.collisions, loop.merge.collisions);
    sum.lists_partial += loop.merge.lists_partial;
    sum.lists_partial_asked += loop.merge.lists_partial_asked;
    for (const auto& [code, times] : loop.merge.list_times) {
      sum.list_times[code].add(times);
    }
  }
  watch_families(out, loops);
  fault_families(out, loops);
  out.gauge("kintsugi_watch_group_streams", "streams to shards that groups share", upstream);
  out.gauge("kintsugi_watch_unshared_streams",
            "streams to shards that the readers of groups would have, each for itself", unshared);
  out.gauge("kintsugi_watch_relayed_streams",
            "streams to shards that groups read from another loop's", relays.relays);
  out.gauge("kintsugi_watch_relay_queue_bytes", "events that wait between loops",
            relays.queue_bytes);
  out.counter("kintsugi_watch_relays_cut_total",
              "streams that were asked of the shard, as their loop was too far behind another",
              relays.cut);
  out.counter("kintsugi_watch_relay_wakeups_total",
              "how often loops were woken for events that another has read", relays.wakes);
  out.gauge("kintsugi_watch_reviewed_streams",
            "merged watches that share what the proxy reads with its own credential", reviewed);
  out.gauge("kintsugi_authz_decisions", "decisions of reviews that are remembered", decisions);
  out.counter("kintsugi_authz_decisions_used_total",
              "reviews that were not asked, as the decision was known", sum.reviews_cached);
  out.gauge("kintsugi_authz_grant_watches", "servers whose roles and bindings are followed",
            grant_watches);
  out.gauge("kintsugi_watch_log_bytes", "recent events that groups keep", log_bytes);
  out.counter("kintsugi_watch_evictions_total", "merged watches ended before their time",
              {"reason"});
  out.sample({"slow"}, sum.evicted_slow);
  out.sample({"memory"}, sum.evicted_memory);
  out.sample({"stall"}, sum.evicted_stall);
  out.sample({"drain"}, sum.evicted_drain);
  out.sample({"forbidden"}, sum.evicted_forbidden);
  out.sample({"review"}, sum.evicted_unreviewed);
  out.counter("kintsugi_watch_bookmarks_total", "bookmarks of merged watches", sum.bookmarks);
  out.counter("kintsugi_merged_lists_total", "merged lists", sum.lists);
  out.counter("kintsugi_key_indexes_listed_total",
              "lists for what a lost history would hide from streams that began at a cursor",
              sum.indexed);
  out.counter("kintsugi_merge_failures_total", "merged reads that failed for a shard that was away",
              sum.failed);
  out.counter("kintsugi_merged_documents_total",
              "discovery and OpenAPI documents of several shards", documents.answered);
  out.counter("kintsugi_merged_documents_built_total",
              "those that had to be made, as a shard had another document than before",
              documents.built);
  out.counter("kintsugi_merged_documents_stale_total",
              "parts of them as they were known, of shards that could not be asked",
              documents.stale);
  out.counter("kintsugi_openapi_differences_total",
              "OpenAPI documents that shards have in different forms", documents.differences);
  out.counter("kintsugi_cursor_expired_total", "merged reads that got 410", {"reason"});
  for (const auto& [reason, count] : sum.expired) {
    out.sample({reason}, count);
  }
  out.counter("kintsugi_key_collisions_total",
              "objects of a namespace and name that another plain server has too",
              {"shard", "reason", "resource"});
  for (const auto& [what, count] : sum.collisions) {
    out.sample({what.first, "name", what.second}, count);
  }
  out.gauge("kintsugi_slot_generation",
            "changes of the set of shards; after 999999 every cursor is answered 410 once",
            generation);
  out.gauge("kintsugi_cursor_vectors", "vectors behind sequence cursors that are kept",
            sequences.vectors);
  out.gauge("kintsugi_cursor_vector_bytes", "memory that they take", sequences.bytes);
  out.gauge("kintsugi_cursor_scopes", "scopes that have any", sequences.scopes);
  out.counter("kintsugi_cursors_minted_total", "sequence cursors that were made", sequences.minted);
  list_families(out, sum);
}

}  // namespace kintsugi::proxy
