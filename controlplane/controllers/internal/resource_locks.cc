#include "controlplane/controllers/internal/resource_locks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "controlplane/internal/names.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

std::string lock_name(std::string_view resource, std::string_view group) {
  return std::string(resource) + "." + (group.empty() ? "core" : std::string(group));
}

bool is_established(const Json& crd) {
  const Json* conditions = crd.at({"status", "conditions"});
  return conditions != nullptr &&
         std::any_of(conditions->items().begin(), conditions->items().end(), [](const Json& one) {
           return one.text({"type"}) == "Established" && one.text({"status"}) == "True";
         });
}

}  // namespace

std::string resource_locks(const apiserver::ObjectReader& reader, std::string_view cluster) {
  std::map<std::string, Json> held;
  reader.list(cluster, "apiextensions.k8s.io", "customresourcedefinitions", "",
              [&](const Json& crd) {
                if (is_established(crd)) {
                  held.insert_or_assign(
                      lock_name(crd.text({"spec", "names", "plural"}), crd.text({"spec", "group"})),
                      Json::object({{"c", Json(true)}}));
                }
                return true;
              });
  reader.list(cluster, kApisGroup, kApiBindings, "", [&](const Json& binding) {
    const Json* bound = binding.at({"status", "boundResources"});
    for (const Json& one : bound == nullptr ? Json::Array() : bound->items()) {
      held.insert_or_assign(lock_name(one.text({"resource"}), one.text({"group"})),
                            Json::object({{"n", binding.text({"metadata", "name"})}}));
    }
    return true;
  });
  Json locks = Json::object();
  for (auto& [name, lock] : held) {
    locks[name] = std::move(lock);
  }
  return locks.dump();
}

}  // namespace kintsugi::controlplane
