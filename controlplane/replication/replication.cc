#include "controlplane/replication/replication.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "apiserver/keys.h"
#include "base/log.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr Duration kLookWhileUnknown = milliseconds(100);
constexpr Duration kReportInterval = seconds(1);

Json number(std::uint64_t value) { return Json(static_cast<std::int64_t>(value)); }

}  // namespace

void ReplicationReport::set(Json report) {
  const std::lock_guard lock(mutex_);
  report_ = std::move(report);
}

Json ReplicationReport::get() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

Replicator::Replicator(net::Loop& loop, Params params)
    : loop_(loop),
      params_(std::move(params)),
      rows_(loop, params_.store),
      sync_timer_(loop),
      report_timer_(loop) {}

Replicator::~Replicator() { alive_.end(); }

void Replicator::start() {
  began_ = loop_.now();
  params_.root.listen([this, alive = alive_.weak()] {
    if (alive) {
      look_later();
    }
  });
  look();
  if (params_.report != nullptr) {
    publish();
  }
}

/// In a later turn: sources must not go inside of callbacks.
void Replicator::look_later() {
  if (std::exchange(look_posted_, true)) {
    return;
  }
  loop_.post([this, alive = alive_.weak()] {
    if (alive) {
      look_posted_ = false;
      look();
    }
  });
}

void Replicator::look() {
  const auto& shards = params_.root.shards();
  for (auto source = sources_.begin(); source != sources_.end();) {
    if (shards.contains(source->first) || !params_.root.synced()) {
      ++source;
      continue;
    }
    log_info("another shard is no longer replicated", {{"shard", source->first}});
    source->second.feed->forget();
    source = sources_.erase(source);
  }
  for (const auto& [name, shard] : shards) {
    if (name != params_.own_shard && shard.base_url != params_.own_url) {
      add(shard);
    }
  }
  if (!params_.root.synced()) {
    sync_timer_.start(kLookWhileUnknown, [this] { look(); });
  } else if (!std::exchange(strangers_removed_, true)) {
    remove_strangers();
  }
  if (params_.report != nullptr) {
    params_.report->set_complete(is_complete());
  }
}

bool Replicator::is_complete() const {
  const TimePoint warm_since = loop_.now() - params_.most_cold;
  return (params_.root.synced() || began_ <= warm_since) &&
         std::all_of(sources_.begin(), sources_.end(), [warm_since](const auto& source) {
           return source.second.since <= warm_since || source.second.feed->state().complete;
         });
}

void Replicator::add(const ShardRecord& shard) {
  const auto known = sources_.find(shard.name);
  if (known != sources_.end() && known->second.url == shard.base_url) {
    return;
  }
  const bool taken = std::any_of(sources_.begin(), sources_.end(), [&](const auto& source) {
    return source.first != shard.name && source.second.url == shard.base_url;
  });
  if (taken) {
    return;
  }
  Expected<net::UpstreamParams> params = params_.connect(shard.base_url);
  if (!params) {
    log_warn("another shard cannot be replicated",
             {{"shard", shard.name}, {"error", params.error().to_string()}});
    return;
  }
  Source& source = sources_[shard.name];
  source.url = shard.base_url;
  if (source.feed == nullptr) {
    source.feed = std::make_unique<ReplicationSource>(loop_, rows_, shard.name);
    source.since = loop_.now();
  }
  source.feed->connect(std::move(*params));
}

/// Copies of shards that went while this one was not running.
void Replicator::remove_strangers() {
  std::vector<std::pair<std::string, std::string>> gone;
  for (const std::string& resource : replicated_resources()) {
    rows_.each(apiserver::resource_prefix(resource),
               [&](std::string_view key, std::string_view shard) {
                 if (shard == params_.own_shard || !params_.root.shards().contains(shard)) {
                   gone.emplace_back(key, shard);
                 }
               });
  }
  for (const auto& [key, shard] : gone) {
    rows_.remove(key, shard);
  }
}

Json Replicator::report() const {
  Json out = Json::object();
  Json& shards = out["shards"];
  shards = Json::object();
  for (const auto& [name, source] : sources_) {
    const ReplicationSource::State state = source.feed->state();
    shards[name] = Json::object({{"url", Json(source.url)},
                                 {"synced", Json(state.synced)},
                                 {"watching", Json(state.watching)},
                                 {"objects", number(state.objects)},
                                 {"clustersWithRights", number(state.clusters)},
                                 {"events", number(state.events)},
                                 {"lists", number(state.lists)},
                                 {"failures", number(state.failures)}});
  }
  const ReplicaRows::Stats rows = rows_.stats();
  out["rows"] = Json::object({{"written", number(rows.written)},
                              {"removed", number(rows.removed)},
                              {"batches", number(rows.batches)},
                              {"failures", number(rows.failures)},
                              {"waiting", number(rows.waiting)}});
  return out;
}

void Replicator::publish() {
  params_.report->set(report());
  params_.report->set_complete(is_complete());
  report_timer_.start(kReportInterval, [this] { publish(); });
}

}  // namespace kintsugi::controlplane
