#include "kinds/controllers/internal/namespace_lifecycle.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "krm/finalizers.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

apiserver::ObjectKey key_of(std::string_view cluster, std::string_view name) {
  return {std::string(cluster), "", "namespaces", "", std::string(name)};
}

bool holds_content(const apiserver::ResourceDef& definition) {
  return definition.namespaced && !definition.virtual_create_only &&
         !definition.stored_under_group && definition.has_verb("delete") &&
         definition.has_verb("list");
}

std::string counted(const std::map<std::string, std::size_t>& counts, std::string_view middle) {
  std::string text;
  for (const auto& [name, count] : counts) {
    if (!text.empty()) {
      text += ", ";
    }
    text += name;
    text += middle;
    text += std::to_string(count) + " resource instances";
  }
  return text;
}

}  // namespace

/// One look at one namespace.
struct NamespaceLifecycle::Pass {
  apiserver::ObjectKey key;
  Json object;
  bool discovered = true;
  std::vector<std::string> failures;
  std::size_t running = 1;  // deletes under way, and the loop that starts them
  Finished finished;
};

NamespaceLifecycle::NamespaceLifecycle(const apiserver::ControllerContext& context)
    : apiserver::ControllerBase(context, "namespace-controller") {}

void NamespaceLifecycle::start() {
  follow("", "", [this](const apiserver::ApiServer::Change& change) {
    if (change.group.empty() && change.resource == "namespaces") {
      const std::string key = key_of(change.cluster, change.name).pack();
      if (change.object == nullptr) {
        terminating_.erase(key);
      } else if (apiserver::is_deleted(*change.object)) {
        terminating_.insert(key);
        queue_.add(key);
      }
    } else if (!change.ns.empty() && !terminating_.empty()) {
      // Content that went, or that came in late.
      const std::string key = key_of(change.cluster, change.ns).pack();
      if (terminating_.contains(key)) {
        queue_.add(key);
      }
    }
  });
}

void NamespaceLifecycle::add_cluster(std::string_view cluster) {
  reader().list(cluster, "", "namespaces", "", [&](const Json& object) {
    if (apiserver::is_deleted(object)) {
      std::string key = key_of(cluster, object.text({"metadata", "name"})).pack();
      queue_.add(key);
      terminating_.insert(std::move(key));
    }
    return true;
  });
}

void NamespaceLifecycle::remove_cluster(std::string_view cluster) {
  const std::string prefix = std::string(cluster) + "/";
  std::erase_if(terminating_, [&](const std::string& key) { return key.starts_with(prefix); });
}

void NamespaceLifecycle::process(const std::string& key, Finished finished) {
  auto pass = std::make_shared<Pass>();
  pass->key = apiserver::ObjectKey::unpack(key);
  std::optional<Json> object = get(pass->key);
  if (!object || !apiserver::is_deleted(*object)) {
    finished(true);
    return;
  }
  const Json* finalizers = object->at({"spec", "finalizers"});
  const bool ours =
      finalizers != nullptr &&
      std::any_of(finalizers->items().begin(), finalizers->items().end(),
                  [](const Json& item) { return item.as_string() == krm::kNamespaceFinalizer; });
  if (!ours) {
    finished(true);
    return;
  }
  pass->object = std::move(*object);
  pass->finished = std::move(finished);
  pass->discovered = context_.registry.ready(pass->key.cluster);
  delete_content(pass);
}

void NamespaceLifecycle::delete_content(const std::shared_ptr<Pass>& pass) {
  std::vector<std::pair<apiserver::ObjectKey, std::string>> doomed;
  for (const apiserver::ResourcePtr& definition : context_.registry.all(pass->key.cluster)) {
    if (!holds_content(*definition)) {
      continue;
    }
    reader().list(pass->key.cluster, definition->group, definition->plural, pass->key.name,
                  [&](const Json& object) {
                    if (!apiserver::is_deleted(object)) {
                      doomed.emplace_back(
                          apiserver::ObjectKey{pass->key.cluster, definition->group,
                                               definition->plural, pass->key.name,
                                               std::string(object.text({"metadata", "name"}))},
                          apiserver::uid_of(object));
                    }
                    return true;
                  });
  }
  pass->running += doomed.size();
  for (auto& [key, uid] : doomed) {
    remove_in_cascade(pass->key.pack(), key, std::move(uid),
                      [this, pass, key = key](Expected<Json> result) {
                        if (!apiserver::is_gone(result)) {
                          pass->failures.push_back(key.resource + "/" + key.name + ": " +
                                                   std::string(result.error().message()));
                        }
                        if (--pass->running == 0) {
                          settle(pass);
                        }
                      });
  }
  if (--pass->running == 0) {
    settle(pass);
  }
}

void NamespaceLifecycle::settle(const std::shared_ptr<Pass>& pass) {
  std::map<std::string, std::size_t> remaining;
  std::map<std::string, std::size_t> held;
  for (const apiserver::ResourcePtr& definition : context_.registry.all(pass->key.cluster)) {
    if (!holds_content(*definition)) {
      continue;
    }
    reader().list(pass->key.cluster, definition->group, definition->plural, pass->key.name,
                  [&](const Json& object) {
                    ++remaining[definition->plural + "." + definition->group];
                    if (const Json* finalizers = object.at({"metadata", "finalizers"})) {
                      for (const Json& finalizer : finalizers->items()) {
                        ++held[std::string(finalizer.as_string())];
                      }
                    }
                    return true;
                  });
  }

  Json object = pass->object;
  if (remaining.empty() && pass->discovered && pass->failures.empty()) {
    Json::Array& finalizers = object.make({"spec", "finalizers"}).edit_items();
    std::erase_if(finalizers,
                  [](const Json& item) { return item.as_string() == krm::kNamespaceFinalizer; });
    update(pass->key, "finalize", std::move(object), [pass](Expected<Json> result) {
      pass->finished(result || result.error().code() == Errc::kNotFound);
    });
    return;
  }

  bool changed = false;
  const auto set = [&](const char* type, bool bad, const char* good_reason, const char* good,
                       const char* bad_reason, const std::string& text) {
    changed = apiserver::set_condition(object, type, bad ? "True" : "False",
                                       bad ? bad_reason : good_reason, bad ? text : good) ||
              changed;
  };
  set("NamespaceDeletionDiscoveryFailure", !pass->discovered, "ResourcesDiscovered",
      "All resources successfully discovered", "DiscoveryFailed",
      "Discovery failed for some groups: definitions are still being loaded");
  set("NamespaceDeletionGroupVersionParsingFailure", false, "ParsedGroupVersions",
      "All legacy kube types successfully parsed", "", "");
  std::string failures;
  for (const std::string& failure : pass->failures) {
    failures += (failures.empty() ? "" : ", ") + failure;
  }
  set("NamespaceDeletionContentFailure", !failures.empty(), "ContentDeleted",
      "All content successfully deleted, may be waiting on finalization", "ContentDeletionFailed",
      "Failed to delete all resource types, " + std::to_string(pass->failures.size()) +
          " remaining: " + failures);
  set("NamespaceContentRemaining", !remaining.empty(), "ContentRemoved",
      "All content successfully removed", "SomeResourcesRemain",
      "Some resources are remaining: " + counted(remaining, " has "));
  set("NamespaceFinalizersRemaining", !held.empty(), "ContentHasNoFinalizers",
      "All content-preserving finalizers finished", "SomeFinalizersRemain",
      "Some content in the namespace has finalizers remaining: " + counted(held, " in "));
  // What waits for others' finalizers is queued again by their changes; failures by back-off.
  const bool good = pass->failures.empty() && pass->discovered;
  if (!changed) {
    pass->finished(good);
    return;
  }
  update(pass->key, "status", std::move(object), [pass, good](Expected<Json> result) {
    pass->finished(good && (result || result.error().code() == Errc::kNotFound));
  });
}

}  // namespace kintsugi::kinds
