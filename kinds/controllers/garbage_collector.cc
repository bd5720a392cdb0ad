#include "kinds/controllers/garbage_collector.h"

#include <algorithm>
#include <utility>

#include "apiserver/changed_object.h"
#include "base/time.h"
#include "kinds/replicas.h"
#include "krm/finalizers.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;
constexpr std::size_t kRemembered = 10'000;

std::string in_cluster(std::string_view cluster, std::string_view uid) {
  return std::string(cluster) + "/" + std::string(uid);
}

const Json::Array& references_of(const Json& object) {
  static const Json::Array kNone;
  const Json* list = object.at({"metadata", "ownerReferences"});
  return list == nullptr ? kNone : list->items();
}

bool waits(const Json& object) {
  return apiserver::is_deleted(object) &&
         apiserver::has_finalizer(object, krm::kForegroundFinalizer);
}

void drop_references(Json& object, const std::vector<std::string>& uids) {
  Json* list = object.at({"metadata", "ownerReferences"});
  if (list == nullptr) {
    return;
  }
  Json::Array& items = list->edit_items();
  std::erase_if(items, [&](const Json& reference) {
    return std::find(uids.begin(), uids.end(), reference.text({"uid"})) != uids.end();
  });
  if (items.empty()) {
    object.at({"metadata"})->erase("ownerReferences");
  }
}

/// Events own nothing and are many; copies are their shard's to collect.
bool is_collected(std::string_view group, std::string_view resource) {
  if (group == kReplicaGroup) {
    return false;
  }
  return resource != "events" || (!group.empty() && group != "events.k8s.io");
}

}  // namespace

GarbageCollector::GarbageCollector(const apiserver::ControllerContext& context)
    : apiserver::ControllerBase(context, "garbage-collector") {}

void GarbageCollector::start() {
  follow("", "", [this](const apiserver::ApiServer::Change& change) {
    if (is_collected(change.group, change.resource)) {
      on_change(change);
    }
  });
}

void GarbageCollector::on_change(const apiserver::ApiServer::Change& change) {
  const std::string key =
      apiserver::ObjectKey{change.cluster, change.group, change.resource, change.ns, change.name}
          .pack();
  if (change.object != nullptr) {
    note(key, change.cluster, change.object.meta());
    return;
  }
  forget(key, change.cluster);
  if (change.previous == nullptr) {
    return;
  }
  const std::string uid = in_cluster(change.cluster, apiserver::uid_of(change.previous.meta()));
  waiting_.erase(uid);
  if (absent_.size() >= kRemembered) {
    absent_.clear();
  }
  absent_.insert(uid);
  if (const auto owned = owned_.find(uid); owned != owned_.end()) {
    for (const std::string& dependent : owned->second) {
      queue_.add(dependent);
    }
  }
}

void GarbageCollector::note(const std::string& key, const std::string& cluster,
                            const Json& object) {
  const Json::Array& references = references_of(object);
  const bool held = apiserver::is_deleted(object) &&
                    (apiserver::has_finalizer(object, krm::kForegroundFinalizer) ||
                     apiserver::has_finalizer(object, krm::kOrphanFinalizer));
  if (waits(object)) {
    waiting_.insert_or_assign(in_cluster(cluster, apiserver::uid_of(object)), key);
  } else if (apiserver::is_deleted(object)) {
    waiting_.erase(in_cluster(cluster, apiserver::uid_of(object)));
  }
  if (!references.empty() || nodes_.find(key) != nodes_.end()) {
    forget(key, cluster);
  }
  if (!references.empty()) {
    Node node;
    node.uid = apiserver::uid_of(object);
    for (const Json& reference : references) {
      const Json* blocks = reference.find("blockOwnerDeletion");
      node.owners.push_back(
          {std::string(reference.text({"uid"})), blocks != nullptr && blocks->as_bool()});
      owned_[in_cluster(cluster, node.owners.back().uid)].insert(key);
    }
    wake_waiting(cluster, node.owners);
    nodes_.emplace(key, std::move(node));
  }
  if (!references.empty() || held) {
    queue_.add(key);
  }
}

void GarbageCollector::forget(const std::string& key, const std::string& cluster) {
  const auto known = nodes_.find(key);
  if (known == nodes_.end()) {
    return;
  }
  const Node node = std::move(known->second);
  nodes_.erase(known);
  for (const Owner& owner : node.owners) {
    const auto owned = owned_.find(in_cluster(cluster, owner.uid));
    if (owned != owned_.end()) {
      owned->second.erase(key);
      if (owned->second.empty()) {
        owned_.erase(owned);
      }
    }
  }
  wake_waiting(cluster, node.owners);
}

void GarbageCollector::wake_waiting(const std::string& cluster, const std::vector<Owner>& owners) {
  for (const Owner& owner : owners) {
    if (const auto found = waiting_.find(in_cluster(cluster, owner.uid)); found != waiting_.end()) {
      queue_.add(found->second);
    }
  }
}

void GarbageCollector::add_cluster(std::string_view cluster) {
  const std::string name(cluster);
  for (const apiserver::ResourcePtr& kind : context_.registry.all(cluster)) {
    if (kind->virtual_create_only || kind->stored_under_group ||
        !is_collected(kind->group, kind->plural)) {
      continue;
    }
    reader().list(cluster, kind->group, kind->plural, "", [&](const Json& object) {
      note(apiserver::ObjectKey{name, kind->group, kind->plural,
                                std::string(object.text({"metadata", "namespace"})),
                                std::string(object.text({"metadata", "name"}))}
               .pack(),
           name, object);
      return true;
    });
  }
}

void GarbageCollector::remove_cluster(std::string_view cluster) {
  const std::string prefix = std::string(cluster) + "/";
  const auto ours = [&](const auto& entry) { return entry.first.starts_with(prefix); };
  std::erase_if(nodes_, ours);
  std::erase_if(owned_, ours);
  std::erase_if(waiting_, ours);
  std::erase_if(kinds_, ours);
  std::erase_if(generations_, [&](const auto& entry) { return entry.first == cluster; });
}

void GarbageCollector::process(const std::string& text, Finished finished) {
  const apiserver::ObjectKey key = apiserver::ObjectKey::unpack(text);
  std::optional<Json> object = get(key);
  if (!object) {
    finished(true);
  } else if (apiserver::is_deleted(*object)) {
    if (apiserver::has_finalizer(*object, krm::kForegroundFinalizer)) {
      finish_foreground(key, std::move(*object), std::move(finished));
    } else if (apiserver::has_finalizer(*object, krm::kOrphanFinalizer)) {
      orphan_dependents(key, std::move(*object), std::move(finished));
    } else {
      finished(true);
    }
  } else if (references_of(*object).empty()) {
    finished(true);
  } else {
    collect(key, std::move(*object), std::move(finished));
  }
}

const std::set<std::string>* GarbageCollector::dependents_of(const std::string& cluster,
                                                             const std::string& uid) const {
  const auto found = owned_.find(in_cluster(cluster, uid));
  return found == owned_.end() ? nullptr : &found->second;
}

bool GarbageCollector::waits_for(const std::string& cluster, const std::string& from,
                                 const std::string& target) const {
  std::vector<std::string> open = {from};
  std::set<std::string> seen = {from};
  while (!open.empty()) {
    const std::string uid = std::move(open.back());
    open.pop_back();
    const std::set<std::string>* dependents = dependents_of(cluster, uid);
    if (dependents == nullptr || waiting_.find(in_cluster(cluster, uid)) == waiting_.end()) {
      continue;
    }
    for (const std::string& dependent : *dependents) {
      const auto node = nodes_.find(dependent);
      if (node == nodes_.end()) {
        continue;
      }
      if (node->second.uid == target) {
        return true;
      }
      if (seen.insert(node->second.uid).second) {
        open.push_back(node->second.uid);
      }
    }
  }
  return false;
}

void GarbageCollector::finish_foreground(const apiserver::ObjectKey& key, Json object,
                                         Finished finished) {
  const std::string uid = apiserver::uid_of(object);
  waiting_.insert_or_assign(in_cluster(key.cluster, uid), key.pack());
  bool blocked = false;
  if (const std::set<std::string>* dependents = dependents_of(key.cluster, uid)) {
    for (const std::string& dependent : *dependents) {
      queue_.add(dependent);
      const auto node = nodes_.find(dependent);
      if (node == nodes_.end()) {
        continue;
      }
      const bool blocks =
          std::any_of(node->second.owners.begin(), node->second.owners.end(),
                      [&](const Owner& owner) { return owner.uid == uid && owner.blocks; });
      // A dependent that waits for this owner would wait for ever (AM-351).
      blocked = blocked || (blocks && !waits_for(key.cluster, node->second.uid, uid));
    }
  }
  if (blocked) {
    finished(true);
    return;
  }
  apiserver::drop_finalizer(object, krm::kForegroundFinalizer);
  update(key, "", std::move(object), [finished = std::move(finished)](Expected<Json> result) {
    finished(result || result.error().code() == Errc::kNotFound);
  });
}

void GarbageCollector::orphan_dependents(const apiserver::ObjectKey& key, Json object,
                                         Finished finished) {
  struct Pass {
    std::size_t running = 1;
    bool good = true;
  };
  const std::string uid = apiserver::uid_of(object);
  auto pass = std::make_shared<Pass>();
  auto step = std::make_shared<std::function<void(bool)>>();
  *step = [this, key, pass, object = std::move(object),
           finished = std::move(finished)](bool good) mutable {
    pass->good = pass->good && good;
    if (--pass->running != 0) {
      return;
    }
    if (!pass->good) {
      finished(false);
      return;
    }
    apiserver::drop_finalizer(object, krm::kOrphanFinalizer);
    update(key, "", std::move(object), [finished = std::move(finished)](Expected<Json> result) {
      finished(result || result.error().code() == Errc::kNotFound);
    });
  };
  if (const std::set<std::string>* dependents = dependents_of(key.cluster, uid)) {
    for (const std::string& text : *dependents) {
      const apiserver::ObjectKey dependent = apiserver::ObjectKey::unpack(text);
      std::optional<Json> present = get(dependent);
      if (!present) {
        continue;
      }
      drop_references(*present, {uid});
      ++pass->running;
      update(dependent, "", std::move(*present), [step](Expected<Json> result) {
        (*step)(result || result.error().code() == Errc::kNotFound);
      });
    }
  }
  (*step)(true);
}

apiserver::ResourcePtr GarbageCollector::owner_kind(const std::string& cluster,
                                                    const Json& reference) {
  const std::uint64_t generation = context_.registry.generation(cluster);
  const auto known = generations_.find(cluster);
  if (known == generations_.end() || known->second != generation) {
    const std::string prefix = cluster + "/";
    std::erase_if(kinds_, [&](const auto& entry) { return entry.first.starts_with(prefix); });
    generations_.insert_or_assign(cluster, generation);
  }
  const std::string_view api_version = reference.text({"apiVersion"});
  const std::string_view kind = reference.text({"kind"});
  const std::string id = cluster + "/" + std::string(api_version) + "/" + std::string(kind);
  if (const auto found = kinds_.find(id); found != kinds_.end()) {
    return found->second;
  }
  const std::size_t slash = api_version.find('/');
  const std::string_view group =
      slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
  const std::string_view version =
      slash == std::string_view::npos ? api_version : api_version.substr(slash + 1);
  apiserver::ResourcePtr match;
  for (const apiserver::ResourcePtr& candidate : context_.registry.all(cluster)) {
    if (candidate->kind == kind && candidate->group == group &&
        candidate->version(version) != nullptr && !candidate->virtual_create_only) {
      match = candidate;
      break;
    }
  }
  kinds_.emplace(id, match);
  return match;
}

GarbageCollector::OwnerState GarbageCollector::state_of(const apiserver::ObjectKey& key,
                                                        const Json& object, const Json& reference) {
  const apiserver::ResourcePtr kind =
      context_.registry.ready(key.cluster) ? owner_kind(key.cluster, reference) : nullptr;
  if (kind == nullptr) {
    return OwnerState::kUnknown;
  }
  if (kind->namespaced && key.ns.empty()) {
    report_namespace(key, object, reference);
    return OwnerState::kNever;
  }
  const std::string uid(reference.text({"uid"}));
  const std::optional<Json> owner =
      reader().get(key.cluster, kind->group, kind->plural, kind->namespaced ? key.ns : "",
                   reference.text({"name"}));
  if (!owner || apiserver::uid_of(*owner) != uid) {
    if (kind->namespaced && lives_elsewhere(key.cluster, *kind, uid)) {
      report_namespace(key, object, reference);
    }
    return OwnerState::kDangling;
  }
  return waits(*owner) ? OwnerState::kWaiting : OwnerState::kSolid;
}

bool GarbageCollector::lives_elsewhere(const std::string& cluster,
                                       const apiserver::ResourceDef& kind, const std::string& uid) {
  const std::string id = in_cluster(cluster, uid);
  if (absent_.contains(id)) {
    return false;
  }
  bool found = false;
  reader().list(cluster, kind.group, kind.plural, "", [&](const Json& object) {
    found = object.text({"metadata", "uid"}) == uid;
    return !found;
  });
  if (!found && absent_.size() < kRemembered) {
    absent_.insert(id);
  }
  return found;
}

void GarbageCollector::report_namespace(const apiserver::ObjectKey& key, const Json& object,
                                        const Json& reference) {
  if (reported_.size() >= kRemembered) {
    reported_.clear();
  }
  if (!reported_.insert(apiserver::uid_of(object) + "/" + std::string(reference.text({"uid"})))
           .second) {
    return;
  }
  const std::string ns = key.ns.empty() ? "default" : key.ns;
  const std::string now = rfc3339(unix_seconds());
  const std::string name = key.name + "." + random_suffix(16);
  const auto text = [&](std::string_view member) { return std::string(reference.text({member})); };
  const std::string message = "ownerRef [" + text("apiVersion") + "/" + text("kind") +
                              ", namespace: " + key.ns + ", name: " + text("name") +
                              ", uid: " + text("uid") + "] does not exist in namespace \"" +
                              key.ns + "\"";
  Json involved = Json::object({{"apiVersion", Json(object.text({"apiVersion"}))},
                                {"kind", Json(object.text({"kind"}))},
                                {"name", Json(key.name)},
                                {"uid", Json(object.text({"metadata", "uid"}))}});
  if (!key.ns.empty()) {
    involved["namespace"] = key.ns;
  }
  Json event =
      Json::object({{"apiVersion", "v1"},
                    {"kind", "Event"},
                    {"metadata", Json::object({{"name", Json(name)}, {"namespace", Json(ns)}})},
                    {"involvedObject", std::move(involved)},
                    {"reason", "OwnerRefInvalidNamespace"},
                    {"message", Json(message)},
                    {"type", "Warning"},
                    {"count", 1},
                    {"firstTimestamp", Json(now)},
                    {"lastTimestamp", Json(now)},
                    {"reportingComponent", "garbage-collector-controller"},
                    {"reportingInstance", ""},
                    {"source", Json::object({{"component", "garbage-collector-controller"}})}});
  create({key.cluster, "", "events", ns, name}, std::move(event), [](const Expected<Json>&) {});
}

void GarbageCollector::collect(const apiserver::ObjectKey& key, Json object, Finished finished) {
  std::size_t solid = 0;
  std::size_t waiting = 0;
  std::vector<std::string> removable;
  for (const Json& reference : references_of(object)) {
    switch (state_of(key, object, reference)) {
      case OwnerState::kUnknown:
        finished(false);
        return;
      case OwnerState::kNever:
        finished(true);
        return;
      case OwnerState::kSolid:
        ++solid;
        break;
      case OwnerState::kWaiting:
        ++waiting;
        removable.emplace_back(reference.text({"uid"}));
        break;
      case OwnerState::kDangling:
        removable.emplace_back(reference.text({"uid"}));
        break;
    }
  }
  if (solid > 0 && removable.empty()) {
    finished(true);
    return;
  }
  if (solid > 0) {
    drop_references(object, removable);
    update(key, "", std::move(object), [finished = std::move(finished)](Expected<Json> result) {
      finished(result || result.error().code() == Errc::kNotFound);
    });
    return;
  }
  const bool has_dependents = dependents_of(key.cluster, apiserver::uid_of(object)) != nullptr;
  delete_item(key, std::move(object), waiting > 0 && has_dependents, std::move(finished));
}

void GarbageCollector::delete_item(const apiserver::ObjectKey& key, Json object, bool foreground,
                                   Finished finished) {
  const std::string uid = apiserver::uid_of(object);
  auto delete_now = [this, key, uid, finished, owners = references_of(object)](bool good) {
    if (!good) {
      finished(false);
      return;
    }
    remove_in_cascade(
        key.pack(), key, uid,
        [finished](Expected<Json> result) { finished(apiserver::is_gone(result)); },
        [this, key, owners] {  // whoever has got another owner meanwhile is judged again
          const std::optional<Json> now = get(key);
          return !now || references_of(*now) == owners;
        });
  };
  if (!foreground || apiserver::has_finalizer(object, krm::kForegroundFinalizer)) {
    delete_now(true);
    return;
  }
  // Its own dependents go first, as its owner asked.
  object.make({"metadata", "finalizers"}).push_back(Json(krm::kForegroundFinalizer));
  update(key, "", std::move(object), [delete_now](Expected<Json> result) {
    delete_now(result || result.error().code() == Errc::kNotFound);
  });
}

}  // namespace kintsugi::kinds
