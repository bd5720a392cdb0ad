#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "controlplane/controllers/internal/binding_controller.h"
#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/internal/names.h"
#include "krm/finalizers.h"

namespace kintsugi::controlplane {

using krm::Json;

/// Objects of the bound resources that are still there.
struct BindingController::Remaining {
  std::vector<std::pair<apiserver::ObjectKey, std::string>>
      doomed;                                     // not yet marked for deletion; with UID
  std::map<std::string, std::size_t> finalizers;  // of those that are marked
  std::size_t count = 0;
};

bool BindingController::is_shared(const apiserver::ObjectKey& key, const Json& entry) const {
  const std::string_view uid = entry.text({"schema", "UID"});
  const std::string_view identity = entry.text({"schema", "identityHash"});
  const auto has_it = [&](const Json& other) {
    const Json* list = other.at({"status", "boundResources"});
    return list != nullptr &&
           std::any_of(list->items().begin(), list->items().end(), [&](const Json& one) {
             return one.text({"schema", "UID"}) == uid &&
                    one.text({"schema", "identityHash"}) == identity;
           });
  };
  const auto waits_for_it = [&](const Json& other) {
    const std::string_view pinned = other.text({"status", "apiExportClusterName"});
    const std::optional<ExportRef> ref = params_.catalog.find_export(
        key.cluster, pinned.empty() ? other.text({"spec", "reference", "export", "path"}) : pinned,
        other.text({"spec", "reference", "export", "name"}));
    const std::optional<Json> offer = ref ? params_.catalog.get_export(*ref) : std::nullopt;
    const Json* resources = offer ? offer->at({"spec", "resources"}) : nullptr;
    return resources != nullptr && offer->text({"status", "identityHash"}) == identity &&
           std::any_of(resources->items().begin(), resources->items().end(), [&](const Json& one) {
             const std::optional<Json> schema =
                 params_.catalog.get_schema(ref->cluster, one.text({"schema"}));
             return schema && apiserver::uid_of(*schema) == uid;
           });
  };
  bool shared = false;
  reader().list(key.cluster, kApisGroup, kApiBindings, "", [&](const Json& other) {
    shared = other.text({"metadata", "name"}) != key.name && !apiserver::is_deleted(other) &&
             (has_it(other) || waits_for_it(other));
    return !shared;
  });
  return shared;
}

BindingController::Remaining BindingController::remaining_objects(const apiserver::ObjectKey& key,
                                                                  const Json& binding) const {
  Remaining out;
  const Json* list = binding.at({"status", "boundResources"});
  for (const Json& entry : list == nullptr ? Json::Array() : list->items()) {
    if (is_shared(key, entry)) {
      continue;
    }
    const std::string group(entry.text({"group"}));
    const std::string resource = std::string(entry.text({"resource"})) + ":" +
                                 std::string(entry.text({"schema", "identityHash"}));
    reader().list(key.cluster, group, resource, "", [&](const Json& object) {
      ++out.count;
      if (!apiserver::is_deleted(object)) {
        out.doomed.emplace_back(
            apiserver::ObjectKey{key.cluster, group, resource,
                                 std::string(object.text({"metadata", "namespace"})),
                                 std::string(object.text({"metadata", "name"}))},
            apiserver::uid_of(object));
      } else if (const Json* finalizers = object.at({"metadata", "finalizers"})) {
        for (const Json& finalizer : finalizers->items()) {
          ++out.finalizers[std::string(finalizer.as_string())];
        }
      }
      return true;
    });
  }
  return out;
}

void BindingController::remove_objects(const apiserver::ObjectKey& key, Remaining remaining,
                                       const Finished& finished) {
  struct Pass {
    std::size_t running = 0;
    bool good = true;
  };
  auto pass = std::make_shared<Pass>();
  pass->running = remaining.doomed.size();
  for (auto& [object, uid] : remaining.doomed) {
    remove_in_cascade(key.pack(), object, std::move(uid),
                      [this, pass, key, finished](Expected<Json> result) {
                        pass->good = pass->good && apiserver::is_gone(result);
                        if (--pass->running == 0) {
                          queue_.add(key.pack());  // to see what is held back by finalizers
                          finished(pass->good);
                        }
                      });
  }
}

void BindingController::unbind(const apiserver::ObjectKey& key, Json binding, Finished finished) {
  if (!apiserver::has_finalizer(binding, krm::kBindingFinalizer)) {
    finished(true);
    return;
  }
  Remaining remaining = remaining_objects(key, binding);
  if (!remaining.doomed.empty()) {
    remove_objects(key, std::move(remaining), finished);
    return;
  }
  const auto written = [finished](Expected<Json> stored) {
    finished(stored || stored.error().code() == Errc::kNotFound);
  };
  if (remaining.count == 0) {
    apiserver::drop_finalizer(binding, krm::kBindingFinalizer);
    update(key, "", std::move(binding), written);
    return;
  }
  std::vector<std::string> parts;
  for (const auto& [finalizer, objects] : remaining.finalizers) {
    parts.push_back(finalizer + " in " + std::to_string(objects) + " resource instances");
  }
  if (!parts.empty() &&
      set_kcp_condition(
          binding, "BindingResourceDeleteSuccess", "False", "Error", "SomeFinalizersRemain",
          "Some content in the workspace has finalizers remaining: " + join(parts, ", "))) {
    update(key, "status", std::move(binding), written);
    return;
  }
  finished(true);  // the deletion of an object brings the next pass
}

}  // namespace kintsugi::controlplane
