#include "proxy/routing/group_owners.h"

#include <utility>

#include "krm/json.h"
#include "serving/answer.h"
#include "shards/own_requests.h"

namespace kintsugi::proxy {
namespace {

/// A group with the resource by which one that serves it is known.
struct Group {
  std::string_view path, resource;
  GroupMode GroupModes::*mode;
  bool LocalGroups::*local;
};
constexpr Group kGroups[] = {
    {"/apis/topology.kcp.io/v1alpha1", "partitions", &GroupModes::partitions,
     &LocalGroups::partitions},
    {"/apis/apis.kcp.io/v1alpha1", "apiexportendpointslices", &GroupModes::slices,
     &LocalGroups::slices},
};

/// nullopt: the answer tells nothing.
std::optional<bool> serves(const Expected<net::FetchResponse>& answer, std::string_view resource) {
  if (answer && answer->status == 404) {
    return false;
  }
  const auto list = answer && answer->status == 200 ? krm::Json::parse(answer->body)
                                                    : Expected<krm::Json>(krm::Json());
  const krm::Json* resources = list ? list->find("resources") : nullptr;
  if (resources == nullptr) {
    return std::nullopt;
  }
  for (const krm::Json& one : resources->items()) {
    if (one.text({"name"}) == resource) {
      return true;
    }
  }
  return false;
}

}  // namespace

struct GroupOwners::Entry {
  LocalGroups groups, next;
  TimePoint good_until{};
  bool has = false;
  bool failed = false;
  std::size_t left = 0;
  std::vector<std::unique_ptr<net::Call>> calls;
  std::vector<Done> waiting;
};

GroupOwners::GroupOwners(net::Loop& loop, FindReviewTarget find, GroupModes modes)
    : GroupOwners(loop, std::move(find), modes, Limits()) {}
GroupOwners::GroupOwners(net::Loop& loop, FindReviewTarget find, GroupModes modes, Limits limits)
    : loop_(loop), find_(std::move(find)), modes_(modes), limits_(limits) {}
GroupOwners::~GroupOwners() = default;

std::optional<LocalGroups> GroupOwners::known(std::string_view cluster) const {
  const auto found = entries_.find(cluster);
  const bool good =
      found != entries_.end() && found->second->has && loop_.now() < found->second->good_until;
  return good ? std::optional(found->second->groups) : std::nullopt;
}

void GroupOwners::ask(const std::string& cluster, Done done) {
  if (entries_.size() >= limits_.max_clusters && !entries_.contains(cluster)) {
    std::erase_if(entries_, [](const auto& each) { return each.second->left == 0; });
  }
  auto& entry = entries_[cluster];
  if (entry == nullptr) {
    entry = std::make_unique<Entry>();
  }
  entry->waiting.push_back(std::move(done));
  if (entry->left != 0) {
    return;
  }
  auto target = find_(cluster);
  if (!target) {
    finish(cluster, true, std::move(target.error()));
    return;
  }
  entry->next = possible_groups(modes_);
  entry->failed = false;
  for (const Group& group : kGroups) {
    entry->left += modes_.*group.mode == GroupMode::kAuto ? 1U : 0U;
  }
  for (const Group& group : kGroups) {
    if (modes_.*group.mode != GroupMode::kAuto) {
      continue;
    }
    net::FetchRequest request;
    request.target = target->base_target + std::string(group.path);
    request.headers.add("accept", "application/json");
    request.timeout = limits_.timeout;
    entry->calls.push_back(
        shards::own_fetch(loop_, *target->upstream, std::move(request),
                          [this, cluster, &group](const Expected<net::FetchResponse>& answer) {
                            Entry& asked = *entries_.find(cluster)->second;
                            const auto theirs = serves(answer, group.resource);
                            asked.failed = asked.failed || !theirs;
                            asked.next.*group.local = !theirs.value_or(false);
                            if (--asked.left == 0) {
                              finish(cluster, asked.failed, std::nullopt);
                            }
                          }));
  }
}

void GroupOwners::finish(const std::string& cluster, bool failed, std::optional<Error> error) {
  Entry& entry = *entries_.find(cluster)->second;
  auto over = std::make_shared<std::vector<std::unique_ptr<net::Call>>>(std::move(entry.calls));
  entry.calls.clear();
  loop_.defer([over] { over->clear(); });  // this may be one of their callbacks
  entry.has = entry.has || !failed;
  if (!failed) {
    entry.groups = entry.next;
  }
  entry.good_until = loop_.now() + (failed ? limits_.retry : limits_.fresh);
  const std::vector<Done> waiting = std::exchange(entry.waiting, {});
  const Expected<LocalGroups> result =
      entry.has ? Expected<LocalGroups>(entry.groups)
                : Expected<LocalGroups>(
                      fail(error ? std::move(*error) : serving::shard_unreachable(false)));
  for (const Done& done : waiting) {
    done(result);
  }
}

}  // namespace kintsugi::proxy
