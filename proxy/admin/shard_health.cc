#include "proxy/admin/shard_health.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string_view>

#include "base/time.h"

namespace kintsugi::proxy {

std::set<std::string> silent_shards(const std::vector<topology::Feed::ShardStatus>& shards,
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
  for (const topology::Feed::ShardStatus& shard : shards) {
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

std::vector<CertificateEnd> peer_ends(const std::vector<topology::Feed::ShardStatus>& shards,
                                      const std::vector<LoopReport>& loops) {
  // Old connections may have been made with the one before.
  std::map<std::string_view, std::int64_t> newest;
  const auto add = [&newest](std::string_view name, std::int64_t end) {
    if (end != 0) {
      newest[name] = std::max(newest[name], end);
    }
  };
  for (const topology::Feed::ShardStatus& shard : shards) {
    add(shard.name, shard.certificate_end);
  }
  for (const LoopReport& loop : loops) {
    for (const LoopReport::Upstream& upstream : loop.upstreams) {
      add(upstream.shard, upstream.certificate_end);
    }
  }
  std::vector<CertificateEnd> out;
  for (const auto& [name, end] : newest) {
    out.push_back({"peer", std::string(name), end});
  }
  return out;
}

std::int64_t days_left(std::int64_t at) {
  constexpr std::int64_t kDay = 86'400;
  return (at - unix_seconds()) / kDay;
}

double index_lag(const topology::Feed::ShardStatus& shard, TimePoint now) {
  const bool lags = shard.failed_at > shard.answered_at;
  const TimePoint since = shard.answered_at == TimePoint() ? shard.failed_at : shard.answered_at;
  return lags ? std::chrono::duration<double>(now - since).count() : 0.0;
}

}  // namespace kintsugi::proxy
