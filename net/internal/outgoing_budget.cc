#include "net/internal/outgoing_budget.h"

#include <algorithm>

namespace kintsugi::net {
namespace {

constexpr std::size_t kMostServers = 64;  // of a cluster, that failed lately or are proven

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
  const auto known = one.servers.find(server);
  Server* const record = known != one.servers.end() ? &known->second : nullptr;
  const bool pauses = record != nullptr && record->pause > Duration::zero();
  if (pauses && (record->on_trial || record->paused_until > now)) {
    return Grant::kPaused;
  }
  const std::chrono::duration<double> passed = now - one.filled_at;
  one.tokens = std::min(limits_.per_second, one.tokens + passed.count() * limits_.per_second);
  one.filled_at = now;
  const bool proven = record != nullptr && record->proven_until > now;
  if (one.running >= limits_.at_once || (!proven && one.tokens < 1)) {
    return Grant::kWait;
  }
  one.tokens -= proven ? 0 : 1;
  ++one.running;
  if (pauses) {
    record->on_trial = true;
  }
  return Grant::kGo;
}

/// What is known of a server, made where the outcome is worth it. Null: nothing is to be noted.
OutgoingBudget::Server* OutgoingBudget::remembered(Cluster& cluster, std::string_view server,
                                                   Outcome outcome, TimePoint now) {
  if (const auto known = cluster.servers.find(server); known != cluster.servers.end()) {
    return &known->second;
  }
  if (outcome == Outcome::kUntold || outcome == Outcome::kAnswered) {
    return nullptr;
  }
  if (cluster.servers.size() >= kMostServers) {
    std::erase_if(cluster.servers, [now](const auto& entry) {
      const Server& one = entry.second;
      return one.paused_until <= now && one.proven_until <= now && !one.on_trial;
    });
  }
  if (cluster.servers.size() >= kMostServers && outcome == Outcome::kProven) {
    return nullptr;
  }
  return &cluster.servers[std::string(server)];
}

void OutgoingBudget::count_failure(Server& server, TimePoint granted, TimePoint now) const {
  const bool proven = server.proven_until > now;
  if (server.pause > Duration::zero()) {
    if (server.on_trial) {
      server.pause = proven ? std::min(2 * server.pause, limits_.pause) : limits_.pause;
      server.paused_until = now + server.pause;
    }
    return;
  }
  if (server.failures > 0 && granted < server.failed_at) {
    return;  // what fails together is one failure
  }
  server.failed_at = now;
  if (++server.failures >= limits_.failures) {
    server.pause = proven ? limits_.proven_pause : limits_.pause;
    server.paused_until = now + server.pause;
  }
}

void OutgoingBudget::give_back(std::string_view cluster, std::string_view server, Outcome outcome,
                               TimePoint granted, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  const auto found = clusters_.find(cluster);
  if (found == clusters_.end()) {
    return;
  }
  Cluster& one = found->second;
  one.running -= one.running > 0 ? 1U : 0U;
  Server* const record = remembered(one, server, outcome, now);
  if (record == nullptr) {
    return;
  }
  switch (outcome) {
    case Outcome::kUntold:
      break;
    case Outcome::kFailed:
      count_failure(*record, granted, now);
      break;
    case Outcome::kAnswered:
    case Outcome::kProven:
      record->failures = 0;
      record->pause = Duration::zero();
      record->paused_until = {};
      if (outcome == Outcome::kProven) {
        record->proven_until = now + limits_.proven_for;
      }
      break;
  }
  record->on_trial = false;
}

}  // namespace kintsugi::net
