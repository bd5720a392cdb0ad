#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/certificate_ends.h"
#include "proxy/admin/admin.h"

/// What loops and the index together know of a shard's health. Threads: the control loop's.
namespace kintsugi::proxy {

/// Shards that did not answer when they were asked last, by whatever loop: before so much has
/// failed that requests are no longer sent there (AGG-1004).
[[nodiscard]] std::set<std::string> silent_shards(
    const std::vector<topology::Feed::ShardStatus>& shards, const std::vector<LoopReport>& loops);

/// When the certificates end that shards showed last, to the index or to a loop; by shard, without
/// those that have shown none.
[[nodiscard]] std::vector<CertificateEnd> peer_ends(
    const std::vector<topology::Feed::ShardStatus>& shards, const std::vector<LoopReport>& loops);

/// @param at  [s since 1970]
[[nodiscard]] std::int64_t days_left(std::int64_t at);

/// For how long the shard has not answered the index; 0 while it does [s].
[[nodiscard]] double index_lag(const topology::Feed::ShardStatus& shard, TimePoint now);

}  // namespace kintsugi::proxy
