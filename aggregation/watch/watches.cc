#include "aggregation/watch/watches.h"

#include <algorithm>
#include <utility>

#include "aggregation/asking/jitter.h"
#include "aggregation/documents/document_cache.h"
#include "aggregation/watch/merged_watch.h"
#include "aggregation/watch/watch_group.h"

namespace kintsugi::aggregation {

Watches::Watches(Asking& a, Positions& p, serving::WatchDrain& d)
    : asking(a),
      positions(p),
      drain(d),
      moves(p, *a.view),
      queue_budget(std::make_shared<QueueBudget>(a.params.queue_total)),
      house_timer_(a.loop) {}

void Watches::follow() {
  for (const auto& [key, group] : std::map(groups)) {
    group->refresh();
  }
  for (MergedWatch* watch : std::vector<MergedWatch*>(open)) {
    if (std::find(open.begin(), open.end(), watch) != open.end()) {
      follow_slots(*watch);
    }
  }
}

Duration Watches::expiry_turn(std::size_t turn, std::size_t all) {
  const std::int64_t step = asking.params.expire_spread.count() / static_cast<std::int64_t>(all);
  const Duration wished(step * static_cast<std::int64_t>(turn) + random_between(0, step));
  const Duration least =
      std::chrono::duration_cast<Duration>(seconds(1)) / asking.params.expire_rate;
  last_expiry_ = std::max(last_expiry_ + least, asking.loop.now() + wished);
  return last_expiry_ - asking.loop.now();
}

void Watches::look_for_resources() {
  const std::uint64_t now = documents == nullptr ? 0 : documents->changes();
  if (std::exchange(discovery_seen_, now) != now) {
    for (const auto& [key, group] : groups) {
      group->look_again();
    }
  }
}

void Watches::keep_house() {
  if (std::exchange(keeps_house_, true)) {
    return;
  }
  house_timer_.start(seconds(1), [this] {
    keeps_house_ = false;
    look_for_resources();
    limit_indexes();
    limit_queues();
    if (!groups.empty()) {
      keep_house();
    }
  });
}

void Watches::limit_indexes() {
  std::size_t bytes = 0;
  std::vector<WatchGroup*> by_use;
  for (const auto& [key, group] : groups) {
    bytes += group->streams().index_bytes();
    by_use.push_back(group.get());
  }
  index_bytes = bytes;
  if (bytes <= asking.params.index_bytes) {
    return;
  }
  std::sort(by_use.begin(), by_use.end(), [](const WatchGroup* a, const WatchGroup* b) {
    return a->last_used() < b->last_used();
  });
  for (WatchGroup* group : by_use) {
    bytes -= group->streams().index_bytes();
    group->streams().forget_objects();
    if (bytes <= asking.params.index_bytes) {
      return;
    }
  }
}

void Watches::limit_queues() {
  std::size_t bytes = 0;
  for (const auto& [key, group] : groups) {
    bytes += group->weigh_queue();
  }
  if (!queue_share_) {
    queue_share_.emplace(queue_budget);
  }
  std::size_t excess = queue_share_->set(bytes);
  if (excess == 0) {
    return;
  }
  std::vector<std::pair<std::size_t, GroupReader*>> by_distance;
  for (const auto& [key, group] : groups) {
    for (GroupReader* reader : group->readers().all()) {
      if (reader != nullptr) {
        const GroupReader::Queued queued = reader->queued();
        by_distance.emplace_back(queued.shared + queued.own, reader);
      }
    }
  }
  std::sort(by_distance.begin(), by_distance.end(), std::greater<>());
  for (const auto& [distance, reader] : by_distance) {
    if (distance == 0 || excess == 0) {
      return;
    }
    if (reader->end_for_memory()) {
      excess -= std::min(excess, distance);
    }
  }
}

ResumeRing::Found Watches::find_delivery(const std::string& key, std::uint64_t revision,
                                         const std::vector<bool>& members) const {
  const auto group = groups.find(key);
  return group == groups.end() ? ResumeRing::Found()
                               : group->second->ring().find(revision, members);
}

std::vector<GroupReport> Watches::report_groups() const {
  std::vector<GroupReport> out;
  for (const auto& [key, group] : groups) {
    if (!group->asleep()) {
      out.push_back(group->report());
    }
  }
  return out;
}

std::shared_ptr<WatchGroup> Watches::group_of(http::RequestHead head, MergeRoute route,
                                              const MergeQuery& query) {
  const Scope& scope = route.scope;
  std::string key;
  for (const std::string_view part :
       std::initializer_list<std::string_view>{scope.route, scope.group, scope.resource, route.path,
                                               query.passed_on, head.headers.get("accept")}) {
    key += part;
    key += '\n';
  }
  key += route.reviewed ? "reviewed\n" + route.share_key : "caller\n" + asked_identity(head);
  if (const auto found = groups.find(key); found != groups.end()) {
    return found->second;
  }
  auto group = std::make_shared<WatchGroup>(*this, std::move(key), std::move(head),
                                            std::move(route), query.passed_on);
  groups.emplace(group->key(), group);
  keep_house();
  return group;
}

}  // namespace kintsugi::aggregation
