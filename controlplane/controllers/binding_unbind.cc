#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "controlplane/controllers/internal/binding_controller.h"
#include "controlplane/controllers/internal/conditions.h"
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

BindingController::Remaining BindingController::remaining_objects(const apiserver::ObjectKey& key,
                                                                  const Json& binding) const {
  Remaining out;
  const Json* list = binding.at({"status", "boundResources"});
  for (const Json& entry : list == nullptr ? Json::Array() : list->items()) {
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
    remove(object, std::move(uid), [this, pass, key, finished](Expected<Json> result) {
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
