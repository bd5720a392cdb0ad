#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "net/work_queue.h"

namespace kintsugi::aggregation {

/// Counters of one loop.
struct MergeStats {
  /// By name of a shard and reason (docs/configuration.md).
  using ByShard = std::map<std::pair<std::string, std::string_view>, std::uint64_t>;
  /// Watches of resources of one API group.
  struct OfApiGroup {
    std::size_t watches = 0;   ///< that are open
    std::uint64_t events = 0;  ///< sent to clients
  };
  std::uint64_t lists = 0, watches_begun = 0, bookmarks = 0, failed = 0;
  /// Clients name the groups: of most of them there is no more than "other".
  [[nodiscard]] OfApiGroup& of(const std::string& group) {
    constexpr std::size_t kMost = 512;
    const bool room = of_api_group.size() < kMost || of_api_group.contains(group);
    return of_api_group[room ? group : "other"];
  }
  std::map<std::string, OfApiGroup, std::less<>> of_api_group;
  /// Answers and events 410 by why: generation, removed, rollback, check, native, sequence,
  /// history, initial.
  std::map<std::string_view, std::uint64_t> expired;
  std::uint64_t evicted_slow = 0, evicted_memory = 0, evicted_stall = 0, evicted_drain = 0;
  /// Watches that a review has ended: a right was lost; none could be had for too long.
  std::uint64_t evicted_forbidden = 0, evicted_unreviewed = 0;
  std::uint64_t reviews_allowed = 0, reviews_denied = 0, reviews_failed = 0, reviews_cached = 0;
  std::uint64_t indexed = 0;  ///< lists that made key indexes of streams that began at a cursor
  /// Lists without some shards: as configured, or since their request asked for it.
  std::uint64_t lists_partial = 0, lists_partial_asked = 0;
  std::map<int, net::TimeHistogram> list_times;  ///< by status code; 0: cut off
  ByShard shard_failures;
  ByShard resyncs;   ///< streams that were asked for again; "history": that a list made up for
  ByShard dropped;   ///< answers and events that no client gets: malformed, replayed, large
  ByShard emulated;  ///< initial events that did not end by themselves
  /// Events that came behind newer ones, by shard (AGG-703).
  std::map<std::string, std::uint64_t> out_of_order;
  /// Objects of a name that another server has, by name of their shard and resource.
  std::map<std::pair<std::string, std::string>, std::uint64_t> collisions;
  [[nodiscard]] std::uint64_t& collisions_of(const std::string& shard,
                                             const std::string& resource) {
    constexpr std::size_t kMost = 4'096;
    std::pair<std::string, std::string> key(shard, resource);
    const bool room = collisions.size() < kMost || collisions.contains(key);
    return room ? collisions[std::move(key)] : collisions[{shard, "other"}];
  }
};

}  // namespace kintsugi::aggregation
