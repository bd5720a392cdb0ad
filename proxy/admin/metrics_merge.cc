#include <map>
#include <string>
#include <string_view>

#include "proxy/admin/internal/metrics_text.h"

namespace kintsugi::proxy {
namespace {

std::string joined(const std::string& labels, const std::string& more) {
  return labels.empty() ? more : labels + "," + more;
}

template <class Map>
void add_all(Map& sum, const Map& more) {
  for (const auto& [what, count] : more) {
    sum[what] += count;
  }
}

/// Counters by shard and reason, of all loops.
void by_shard(MetricsText& text, std::string_view name, std::string_view help,
              const std::vector<LoopReport>& loops,
              aggregation::MergeStats::ByShard aggregation::MergeStats::*of) {
  aggregation::MergeStats::ByShard sum;
  for (const LoopReport& loop : loops) {
    add_all(sum, loop.merge.*of);
  }
  text.family(name, "counter", help);
  for (const auto& [what, count] : sum) {
    text.sample(shard_label(what.first) + ",reason=\"" + std::string(what.second) + "\"", count);
  }
}

/// What merged lists took, and why shards failed them.
void list_families(MetricsText& text, const aggregation::MergeStats& sum) {
  text.family("kintsugi_list_seconds", "histogram", "merged lists; code 0: cut off");
  for (const auto& [code, times] : sum.list_times) {
    write_histogram(text, "code=\"" + std::to_string(code) + "\"", times);
  }
  text.family("kintsugi_list_partial_total", "counter",
              "merged lists without some shards, as configured or as their requests asked for");
  text.sample("policy=\"partial\"", sum.lists_partial);
  text.sample("policy=\"request\"", sum.lists_partial_asked);
}

/// Failures of shards, as merged reads see them.
void fault_families(MetricsText& text, const std::vector<LoopReport>& loops) {
  by_shard(text, "kintsugi_shard_failures_total", "failures of shards in merged reads", loops,
           &aggregation::MergeStats::shard_failures);
  by_shard(text, "kintsugi_resyncs_total", "streams of shards that were asked for again", loops,
           &aggregation::MergeStats::resyncs);
  by_shard(text, "kintsugi_events_dropped_total",
           "answers and events of shards that no client gets", loops,
           &aggregation::MergeStats::dropped);
  by_shard(text, "kintsugi_watchlist_emulated_total",
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
  text.family("kintsugi_events_out_of_order_total", "counter",
              "events of shards that came behind newer ones");
  for (const auto& [shard, count] : out_of_order) {
    text.sample(shard_label(shard), count);
  }
  text.family("kintsugi_shard_watch_lag_seconds", "gauge",
              "for how long merged watches have not heard the shard");
  for (const auto& [shard, lag] : silent) {
    text.sample(shard_label(shard), std::chrono::duration<double>(lag).count());
  }
}

/// Merged watches by API group; "": the core group.
void watch_families(MetricsText& text, const std::vector<LoopReport>& loops) {
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
  const auto family = [&](std::string_view name, std::string_view type, std::string_view help,
                          auto Sum::*number) {
    text.family(name, type, help);
    for (const auto& [group, sum] : sums) {
      text.sample("group=\"" + group + "\"", sum.*number);
    }
  };
  family("kintsugi_watch_streams", "gauge", "merged watches of clients", &Sum::watches);
  family("kintsugi_watch_groups", "gauge", "groups of merged watches that share streams",
         &Sum::groups);
  family("kintsugi_watch_queue_bytes", "gauge", "bytes that wait for clients of merged watches",
         &Sum::queue_bytes);
  family("kintsugi_watch_events_total", "counter", "events that merged watches sent", &Sum::events);
}

}  // namespace

void write_histogram(MetricsText& text, const std::string& labels,
                     const net::TimeHistogram& times) {
  const auto seconds_of = [](Duration time) {
    return static_cast<double>(time / std::chrono::microseconds(1)) / 1e6;
  };
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < times.counts.size(); ++i) {
    total += times.counts[i];
    const std::string bound = i < net::TimeHistogram::kBounds.size()
                                  ? std::to_string(seconds_of(net::TimeHistogram::kBounds[i]))
                                  : "+Inf";
    text.sample_of("_bucket", joined(labels, "le=\"" + bound + "\""), total);
  }
  text.sample_of("_sum", labels, seconds_of(times.sum));
  text.sample_of("_count", labels, total);
}

/// Reads over several shards (docs/configuration.md).
void merge_families(MetricsText& text, const std::vector<LoopReport>& loops) {
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
  watch_families(text, loops);
  fault_families(text, loops);
  text.single("kintsugi_watch_group_streams", "gauge", "streams to shards that groups share",
              upstream);
  text.single("kintsugi_watch_unshared_streams", "gauge",
              "streams to shards that the readers of groups would have, each for itself", unshared);
  text.single("kintsugi_watch_relayed_streams", "gauge",
              "streams to shards that groups read from another loop's", relays.relays);
  text.single("kintsugi_watch_relay_queue_bytes", "gauge", "events that wait between loops",
              relays.queue_bytes);
  text.single("kintsugi_watch_relays_cut_total", "counter",
              "streams that were asked of the shard, as their loop was too far behind another",
              relays.cut);
  text.single("kintsugi_watch_relay_wakeups_total", "counter",
              "how often loops were woken for events that another has read", relays.wakes);
  text.single("kintsugi_watch_reviewed_streams", "gauge",
              "merged watches that share what the proxy reads with its own credential", reviewed);
  text.single("kintsugi_authz_decisions", "gauge", "decisions of reviews that are remembered",
              decisions);
  text.single("kintsugi_authz_decisions_used_total", "counter",
              "reviews that were not asked, as the decision was known", sum.reviews_cached);
  text.single("kintsugi_authz_grant_watches", "gauge",
              "servers whose roles and bindings are followed", grant_watches);
  text.single("kintsugi_watch_log_bytes", "gauge", "recent events that groups keep", log_bytes);
  text.family("kintsugi_watch_evictions_total", "counter",
              "merged watches ended before their time");
  text.sample("reason=\"slow\"", sum.evicted_slow);
  text.sample("reason=\"memory\"", sum.evicted_memory);
  text.sample("reason=\"stall\"", sum.evicted_stall);
  text.sample("reason=\"drain\"", sum.evicted_drain);
  text.sample("reason=\"forbidden\"", sum.evicted_forbidden);
  text.sample("reason=\"review\"", sum.evicted_unreviewed);
  text.single("kintsugi_watch_bookmarks_total", "counter", "bookmarks of merged watches",
              sum.bookmarks);
  text.single("kintsugi_merged_lists_total", "counter", "merged lists", sum.lists);
  text.single("kintsugi_key_indexes_listed_total", "counter",
              "lists for what a lost history would hide from streams that began at a cursor",
              sum.indexed);
  text.single("kintsugi_merge_failures_total", "counter",
              "merged reads that failed for a shard that was away", sum.failed);
  text.single("kintsugi_merged_documents_total", "counter",
              "discovery and OpenAPI documents of several shards", documents.answered);
  text.single("kintsugi_merged_documents_built_total", "counter",
              "those that had to be made, as a shard had another document than before",
              documents.built);
  text.single("kintsugi_merged_documents_stale_total", "counter",
              "parts of them as they were known, of shards that could not be asked",
              documents.stale);
  text.single("kintsugi_openapi_differences_total", "counter",
              "OpenAPI documents that shards have in different forms", documents.differences);
  text.family("kintsugi_cursor_expired_total", "counter", "merged reads that got 410");
  for (const auto& [reason, count] : sum.expired) {
    text.sample("reason=\"" + std::string(reason) + "\"", count);
  }
  text.family("kintsugi_key_collisions_total", "counter",
              "objects of a namespace and name that another plain server has too");
  for (const auto& [what, count] : sum.collisions) {
    text.sample(shard_label(what.first) + ",reason=\"name\",resource=\"" + what.second + "\"",
                count);
  }
  text.single("kintsugi_slot_generation", "gauge",
              "changes of the set of shards; after 999999 every cursor is answered 410 once",
              generation);
  text.single("kintsugi_cursor_vectors", "gauge", "vectors behind sequence cursors that are kept",
              sequences.vectors);
  text.single("kintsugi_cursor_vector_bytes", "gauge", "memory that they take", sequences.bytes);
  text.single("kintsugi_cursor_scopes", "gauge", "scopes that have any", sequences.scopes);
  text.single("kintsugi_cursors_minted_total", "counter", "sequence cursors that were made",
              sequences.minted);
  list_families(text, sum);
}

}  // namespace kintsugi::proxy
