#include "kinds/controllers/internal/crd_lifecycle.h"

#include <algorithm>
#include <utility>

#include "krm/finalizers.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;
constexpr std::string_view kGroup = "apiextensions.k8s.io";
constexpr std::string_view kResource = "customresourcedefinitions";
constexpr std::string_view kBindingGroup = "apis.kcp.io";
constexpr std::string_view kBindings = "apibindings";
constexpr std::string_view kApproval = "api-approved.kubernetes.io";

apiserver::ObjectKey key_of(std::string_view cluster, std::string_view name) {
  return {std::string(cluster), std::string(kGroup), std::string(kResource), "", std::string(name)};
}

std::string group_key(std::string_view cluster, const Json& crd) {
  return std::string(cluster) + "/" + std::string(crd.text({"spec", "group"}));
}

std::string instances_key(std::string_view cluster, std::string_view group,
                          std::string_view plural) {
  return std::string(cluster) + "/" + std::string(group) + "/" + std::string(plural);
}

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool is_true(const Json& crd, std::string_view condition) {
  const Json* found = apiserver::find_condition(crd, condition);
  return found != nullptr && found->text({"status"}) == "True";
}

bool is_protected(std::string_view group) {
  return group == "k8s.io" || group == "kubernetes.io" || group.ends_with(".k8s.io") ||
         group.ends_with(".kubernetes.io");
}

bool settle_approval(Json& crd) {
  if (!is_protected(crd.text({"spec", "group"}))) {
    return false;
  }
  const std::string approval(crd.text({"metadata", "annotations", kApproval}));
  constexpr std::string_view kType = "KubernetesAPIApprovalPolicyConformant";
  if (approval.starts_with("unapproved")) {
    return apiserver::set_condition(crd, kType, "False", "UnapprovedAnnotation",
                                    "not approved: \"" + approval + "\"");
  }
  if (approval.empty()) {
    return apiserver::set_condition(crd, kType, "False", "MissingAnnotation",
                                    "protected groups must have approval annotation "
                                    "\"api-approved.kubernetes.io\", see "
                                    "https://github.com/kubernetes/enhancements/pull/1111");
  }
  return apiserver::set_condition(crd, kType, "True", "ApprovedAnnotation",
                                  "approved in " + approval);
}

bool settle_stored_versions(Json& crd) {
  const Json* versions = crd.at({"spec", "versions"});
  if (versions == nullptr) {
    return false;
  }
  for (const Json& version : versions->items()) {
    const Json* storage = version.find("storage");
    if (storage == nullptr || !storage->as_bool()) {
      continue;
    }
    Json& stored = crd.make({"status", "storedVersions"});
    const Json name(version.text({"name"}));
    const Json::Array& known = stored.items();
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      stored.push_back(name);
      return true;
    }
  }
  return false;
}

}  // namespace

CrdLifecycle::CrdLifecycle(const apiserver::ControllerContext& context)
    : apiserver::ControllerBase(context, "kintsugi-crd-controller") {}

void CrdLifecycle::start() {
  follow("", "", [this](const apiserver::ApiServer::Change& change) {
    if (change.group == kGroup && change.resource == kResource) {
      if (change.object != nullptr) {
        note(change.cluster, change.name, *change.object);
        queue_.add(key_of(change.cluster, change.name).pack());
      } else if (change.previous != nullptr) {
        terminating_.erase(instances_key(change.cluster, change.previous->text({"spec", "group"}),
                                         change.previous->text({"spec", "names", "plural"})));
        const std::string group = group_key(change.cluster, *change.previous);
        if (const auto found = groups_.find(group); found != groups_.end()) {
          found->second.erase(change.name);
          enqueue_group(group);
          if (found->second.empty()) {
            groups_.erase(found);
          }
        }
      }
    } else if (change.group == kBindingGroup && change.resource == kBindings) {
      // Bound APIs take names and give them back.
      const std::string prefix = change.cluster + "/";
      for (auto group = groups_.lower_bound(prefix);
           group != groups_.end() && group->first.starts_with(prefix); ++group) {
        enqueue_group(group->first);
      }
    } else if (change.object == nullptr && !terminating_.empty()) {
      const auto found =
          terminating_.find(instances_key(change.cluster, change.group, change.resource));
      if (found != terminating_.end()) {
        queue_.add(found->second);
      }
    }
  });
}

void CrdLifecycle::add_cluster(std::string_view cluster) {
  reader().list(cluster, kGroup, kResource, "", [&](const Json& crd) {
    const std::string_view name = crd.text({"metadata", "name"});
    note(cluster, name, crd);
    queue_.add(key_of(cluster, name).pack());
    return true;
  });
}

void CrdLifecycle::remove_cluster(std::string_view cluster) {
  const std::string prefix = std::string(cluster) + "/";
  const auto ours = [&](const auto& entry) { return entry.first.starts_with(prefix); };
  std::erase_if(groups_, ours);
  std::erase_if(terminating_, ours);
}

void CrdLifecycle::note(std::string_view cluster, std::string_view name, const Json& crd) {
  Names names;
  const auto add = [](std::vector<std::string>& list, std::string_view text) {
    if (!text.empty()) {
      list.emplace_back(text);
    }
  };
  if (const Json* accepted = crd.at({"status", "acceptedNames"})) {
    add(names.resources, accepted->text({"plural"}));
    add(names.resources, accepted->text({"singular"}));
    if (const Json* short_names = accepted->find("shortNames")) {
      for (const Json& short_name : short_names->items()) {
        add(names.resources, short_name.as_string());
      }
    }
    add(names.kinds, accepted->text({"kind"}));
    add(names.kinds, accepted->text({"listKind"}));
  }
  const std::string group = group_key(cluster, crd);
  Names& known = groups_[group][std::string(name)];
  const bool freed =
      std::any_of(known.resources.begin(), known.resources.end(),
                  [&](const auto& one) { return !contains(names.resources, one); }) ||
      std::any_of(known.kinds.begin(), known.kinds.end(),
                  [&](const auto& one) { return !contains(names.kinds, one); });
  known = std::move(names);
  if (freed) {
    enqueue_group(group);
  }
  if (apiserver::is_deleted(crd)) {
    terminating_.insert_or_assign(
        instances_key(cluster, crd.text({"spec", "group"}), crd.text({"spec", "names", "plural"})),
        key_of(cluster, name).pack());
  }
}

void CrdLifecycle::enqueue_group(const std::string& group) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) {
    return;
  }
  const std::string_view cluster = std::string_view(group).substr(0, group.find('/'));
  for (const auto& [name, names] : found->second) {
    queue_.add(key_of(cluster, name).pack());
  }
}

bool CrdLifecycle::settle_names(const apiserver::ObjectKey& key, Json& crd) const {
  std::vector<std::string> resources;
  std::vector<std::string> kinds;
  if (const auto group = groups_.find(group_key(key.cluster, crd)); group != groups_.end()) {
    for (const auto& [name, names] : group->second) {
      if (name != key.name) {
        resources.insert(resources.end(), names.resources.begin(), names.resources.end());
        kinds.insert(kinds.end(), names.kinds.begin(), names.kinds.end());
      }
    }
  }
  // Names that came by other ways than definitions (bound APIs).
  for (const apiserver::ResourcePtr& def : context_.registry.all(key.cluster)) {
    if (!def->identity.empty() && def->group == crd.text({"spec", "group"})) {
      resources.insert(resources.end(), {def->plural, def->singular});
      resources.insert(resources.end(), def->short_names.begin(), def->short_names.end());
      kinds.insert(kinds.end(), {def->kind, def->list_kind});
    }
  }
  const Json requested =
      crd.at({"spec", "names"}) == nullptr ? Json::object() : *crd.at({"spec", "names"});
  Json accepted = crd.at({"status", "acceptedNames"}) == nullptr
                      ? Json::object()
                      : *crd.at({"status", "acceptedNames"});
  const char* reason = nullptr;
  std::string message;
  const auto take = [&](const char* field, const std::vector<std::string>& used,
                        const char* conflict) {
    const std::string name(requested.text({field}));
    if (!name.empty() && contains(used, name)) {
      reason = conflict;
      message = "\"" + name + "\" is already in use";
    } else if (name.empty()) {
      accepted.erase(field);
    } else {
      accepted[field] = name;
    }
  };
  take("plural", resources, "PluralConflict");
  take("singular", resources, "SingularConflict");
  std::string taken;
  if (const Json* short_names = requested.find("shortNames")) {
    for (const Json& short_name : short_names->items()) {
      if (contains(resources, short_name.as_string())) {
        taken += (taken.empty() ? "\"" : ", \"") + std::string(short_name.as_string()) +
                 "\" is already in use";
      }
    }
  }
  const auto copy = [&](const char* field) {
    const Json* value = requested.find(field);
    if (value == nullptr || value->size() == 0) {
      accepted.erase(field);
    } else {
      accepted[field] = *value;
    }
  };
  if (taken.empty()) {
    copy("shortNames");
  } else {
    reason = "ShortNamesConflict";
    message = taken;
  }
  take("kind", kinds, "KindConflict");
  take("listKind", kinds, "ListKindConflict");
  copy("categories");
  // The two members that are never omitted.
  accepted["plural"] = std::string(accepted.text({"plural"}));
  accepted["kind"] = std::string(accepted.text({"kind"}));

  bool changed = false;
  Json& present = crd.make({"status", "acceptedNames"});
  if (!(present == accepted)) {
    present = std::move(accepted);
    changed = true;
  }
  const bool good = reason == nullptr;
  changed = apiserver::set_condition(crd, "NamesAccepted", good ? "True" : "False",
                                     good ? "NoConflicts" : reason,
                                     good ? "no conflicts found" : message) ||
            changed;
  if (!is_true(crd, "Established")) {
    changed = (good ? apiserver::set_condition(crd, "Established", "True", "InitialNamesAccepted",
                                               "the initial names have been accepted")
                    : apiserver::set_condition(crd, "Established", "False", "NotAccepted",
                                               "not all names are accepted")) ||
              changed;
  }
  return changed;
}

void CrdLifecycle::process(const std::string& text, Finished finished) {
  const apiserver::ObjectKey key = apiserver::ObjectKey::unpack(text);
  std::optional<Json> crd = get(key);
  if (!crd) {
    finished(true);
    return;
  }
  if (apiserver::is_deleted(*crd)) {
    clean_up(key, std::move(*crd), std::move(finished));
    return;
  }
  bool changed = settle_names(key, *crd);
  changed = settle_stored_versions(*crd) || changed;
  changed = settle_approval(*crd) || changed;
  if (!changed) {
    finished(true);
    return;
  }
  // Known at once, so that two definitions in one turn cannot both take a name.
  note(key.cluster, key.name, *crd);
  update(key, "status", std::move(*crd), [finished = std::move(finished)](Expected<Json> result) {
    finished(result || result.error().code() == Errc::kNotFound);
  });
}

void CrdLifecycle::clean_up(const apiserver::ObjectKey& key, Json crd, Finished finished) {
  if (!apiserver::has_finalizer(crd, krm::kDefinitionFinalizer)) {
    finished(true);
    return;
  }
  const std::string group(crd.text({"spec", "group"}));
  const std::string plural(crd.text({"spec", "names", "plural"}));
  std::vector<std::pair<apiserver::ObjectKey, std::string>> doomed;
  std::size_t remaining = 0;
  // What was never served here has no instances of its own.
  if (is_true(crd, "Established")) {
    reader().list(key.cluster, group, plural, "", [&](const Json& object) {
      ++remaining;
      if (!apiserver::is_deleted(object)) {
        doomed.emplace_back(
            apiserver::ObjectKey{key.cluster, group, plural,
                                 std::string(object.text({"metadata", "namespace"})),
                                 std::string(object.text({"metadata", "name"}))},
            apiserver::uid_of(object));
      }
      return true;
    });
  }
  auto done = [finished](Expected<Json> result) {
    finished(result || result.error().code() == Errc::kNotFound);
  };
  if (remaining == 0) {
    apiserver::drop_finalizer(crd, krm::kDefinitionFinalizer);
    update(key, "", std::move(crd), std::move(done));
    return;
  }
  if (apiserver::set_condition(crd, "Terminating", "True", "InstanceDeletionInProgress",
                               "CustomResource deletion is in progress")) {
    update(key, "status", std::move(crd), std::move(done));  // its change brings the next pass
    return;
  }
  if (doomed.empty()) {
    finished(true);  // others' finalizers; the deletion of an instance brings the next pass
    return;
  }
  struct Pass {
    std::size_t running = 0;
    bool good = true;
  };
  auto pass = std::make_shared<Pass>();
  pass->running = doomed.size();
  for (auto& [instance, uid] : doomed) {
    remove_in_cascade(key.pack(), instance, std::move(uid),
                      [pass, finished](Expected<Json> result) {
                        pass->good = pass->good && apiserver::is_gone(result);
                        if (--pass->running == 0) {
                          finished(pass->good);
                        }
                      });
  }
}

}  // namespace kintsugi::kinds
