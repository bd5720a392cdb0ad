#include "kinds/controllers/quota_usage.h"

#include <utility>

#include "kinds/quota/quota.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

std::string space_key(std::string_view cluster, std::string_view ns) {
  return std::string(cluster).append("/").append(ns);
}

/// Waits for the writes of one namespace.
struct Round {
  std::function<void(bool)> finished;
  bool ok = true;
  ~Round() { finished(ok); }
};

}  // namespace

QuotaUsage::QuotaUsage(const apiserver::ControllerContext& context)
    : apiserver::ControllerBase(context, "resourcequota-controller"), timer_(context.loop) {}

void QuotaUsage::start() {
  follow("", "", [this](const apiserver::ApiServer::Change& change) { on_change(change); });
}

void QuotaUsage::add_cluster(std::string_view cluster) {
  reader().list(cluster, "", kResourceQuotas, "", [&](const Json& quota) {
    const std::string key = space_key(cluster, quota.text({"metadata", "namespace"}));
    const auto revision =
        parse_decimal<store::Revision>(quota.text({"metadata", "resourceVersion"}));
    note(key, std::string(quota.text({"metadata", "name"})),
         {std::make_shared<const Json>(quota), revision.value_or(0)});
    // The quota may be newer than the changes that have been seen.
    spaces_[key].counters.clear();
    return true;
  });
}

void QuotaUsage::remove_cluster(std::string_view cluster) {
  const std::string prefix = space_key(cluster, "");
  std::erase_if(spaces_, [&](const auto& entry) { return entry.first.starts_with(prefix); });
}

void QuotaUsage::on_change(const apiserver::ApiServer::Change& change) {
  const bool is_quota = change.group.empty() && change.resource == kResourceQuotas;
  if (change.ns.empty() || (spaces_.empty() && !is_quota)) {
    return;
  }
  const std::string key = space_key(change.cluster, change.ns);
  if (is_quota) {
    note(key, change.name, {change.object, change.revision});
  }
  const bool gone = change.object == nullptr;
  const auto space = spaces_.find(key);
  if (space == spaces_.end() || (!gone && change.previous != nullptr)) {
    return;
  }
  const std::string resource =
      change.group.empty() ? change.resource : change.resource + "." + change.group;
  const auto counter = space->second.counters.find(resource);
  if (counter != space->second.counters.end() && change.revision > counter->second.revision) {
    counter->second.objects += gone ? -1 : 1;
    queue_.add(key);
  }
}

void QuotaUsage::note(const std::string& space, const std::string& name, Quota quota) {
  auto& quotas = spaces_[space].quotas;
  const auto known = quotas.find(name);
  if (known != quotas.end() && known->second.revision > quota.revision) {
    return;
  }
  if (quota.object == nullptr) {
    if (known != quotas.end()) {
      quotas.erase(known);
    }
    if (quotas.empty()) {
      spaces_.erase(space);
    }
    return;
  }
  quotas.insert_or_assign(name, std::move(quota));
  queue_.add(space);
  arm();
}

void QuotaUsage::arm() {
  if (armed_ || spaces_.empty()) {
    return;
  }
  armed_ = true;
  timer_.start(seconds(300), [this] {
    armed_ = false;
    recheck();
    arm();
  });
}

void QuotaUsage::recheck() {
  for (auto& [key, space] : spaces_) {
    space.counters.clear();
    queue_.add(key);
  }
}

Expected<std::int64_t> QuotaUsage::counted(const std::string& key, Space& space,
                                           std::string_view resource) {
  if (const auto known = space.counters.find(resource); known != space.counters.end()) {
    return known->second.objects;
  }
  const std::size_t slash = key.find('/');
  const std::string_view cluster = std::string_view(key).substr(0, slash);
  const Expected<apiserver::ApiServer::Counted> now =
      context_.server.count(cluster, resource, std::string_view(key).substr(slash + 1));
  if (!now) {
    return fail(now.error().clone());
  }
  space.counters.emplace(resource, Counter{now->objects, now->revision});
  return now->objects;
}

void QuotaUsage::process(const std::string& key, Finished finished) {
  const auto found = spaces_.find(key);
  if (found == spaces_.end()) {
    finished(true);
    return;
  }
  const auto round = std::make_shared<Round>();
  round->finished = std::move(finished);
  const std::size_t slash = key.find('/');
  for (const auto& [name, quota] : found->second.quotas) {
    Expected<Json> status = quota_status(*quota.object, [&](std::string_view resource) {
      return counted(key, found->second, resource);
    });
    if (!status) {
      round->ok = false;
      continue;
    }
    const Json* present = quota.object->find("status");
    if (present != nullptr ? *present == *status : status->size() == 0) {
      continue;
    }
    Json next = *quota.object;
    next["status"] = std::move(*status);
    const apiserver::ObjectKey where{key.substr(0, slash), "", std::string(kResourceQuotas),
                                     key.substr(slash + 1), name};
    update(where, "status", std::move(next), [round](Expected<Json> result) {
      // Gone, or changed: that change brings the namespace here again.
      round->ok = round->ok && apiserver::is_gone(result);
    });
  }
}

}  // namespace kintsugi::kinds
