#include "net/internal/outgoing_budget.h"

#include <algorithm>

namespace kintsugi::net {
namespace {

constexpr std::size_t kMostServers = 64;  // of a cluster, that failed lately

}  // namespace

OutgoingBudget::Cluster& OutgoingBudget::cluster_of(std::string_view name, TimePoint now) {
  if (const auto known = clusters_.find(name); known != clusters_.end()) {
    return known->second;
  }
  if (clusters_.size() >= limits_.max_clusters) {
    // Who rests has all that a new one gets.
    std::erase_if(clusters_, [&](const auto& entry) {
      const Cluster& one = entry.second;
      const bool paused =
          std::any_of(one.servers.begin(), one.servers.end(),
                      [now](const auto& server) { return server.second.paused_until > now; });
      return one.running == 0 && !paused && now - one.filled_at > seconds(1);
    });
  }
  Cluster& made = clusters_[std::string(name)];
  made.tokens = limits_.per_second;
  made.filled_at = now;
  return made;
}

OutgoingBudget::Grant OutgoingBudget::take(std::string_view cluster, std::string_view server,
                                           TimePoint now) {
  const std::scoped_lock lock(mutex_);
  Cluster& one = cluster_of(cluster, now);
  if (const auto known = one.servers.find(server);
      known != one.servers.end() && known->second.paused_until > now) {
    return Grant::kPaused;
  }
  const std::chrono::duration<double> passed = now - one.filled_at;
  one.tokens = std::min(limits_.per_second, one.tokens + passed.count() * limits_.per_second);
  one.filled_at = now;
  if (one.running >= limits_.at_once || one.tokens < 1) {
    return Grant::kWait;
  }
  one.tokens -= 1;
  ++one.running;
  return Grant::kGo;
}

void OutgoingBudget::give_back(std::string_view cluster, std::string_view server, bool failed,
                               TimePoint now) {
  const std::scoped_lock lock(mutex_);
  const auto found = clusters_.find(cluster);
  if (found == clusters_.end()) {
    return;
  }
  Cluster& one = found->second;
  one.running -= one.running > 0 ? 1U : 0U;
  if (!failed) {
    if (const auto known = one.servers.find(server); known != one.servers.end()) {
      one.servers.erase(known);
    }
    return;
  }
  if (one.servers.size() >= kMostServers) {
    std::erase_if(one.servers,
                  [now](const auto& entry) { return entry.second.paused_until <= now; });
  }
  Server& bad = one.servers[std::string(server)];
  if (++bad.failures >= limits_.failures) {
    bad.failures = 0;
    bad.paused_until = now + limits_.pause;
  }
}

}  // namespace kintsugi::net
