#include "controlplane/catalog/virtual_resources.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "controlplane/internal/names.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::size_t kMostShown = 256;  // then those are looked for that nobody needs any more

std::string export_row(const ExportRef& ref) { return ref.cluster + "/" + ref.name; }

}  // namespace

void VirtualResources::start(apiserver::ApiServer& server, ApiCatalog& catalog) {
  catalog_ = &catalog;
  catalog.on_export([this](const ExportRef& ref) {
    const std::optional<Json> found = catalog_->get_export(ref);
    note(ref, found ? &*found : nullptr);
  });
  for (const std::string_view group : {kinds::kReplicaGroup, kApisGroup}) {
    server.reader().list("*", group, kApiExports, "", [this](const Json& api_export) {
      note({cluster_of(api_export), std::string(api_export.text({"metadata", "name"}))},
           &api_export);
      return true;
    });
  }
}

void VirtualResources::note(const ExportRef& ref, const Json* api_export) {
  std::vector<VirtualResource> found;
  const Json* resources = api_export == nullptr ? nullptr : api_export->at({"spec", "resources"});
  for (const Json& resource : resources == nullptr ? Json::Array() : resources->items()) {
    const Json* storage = resource.at({"storage", "virtual"});
    if (storage == nullptr || storage->text({"reference", "apiGroup"}) != kCacheGroup ||
        storage->text({"reference", "kind"}) != "ClusterCachedResourceEndpointSlice") {
      continue;
    }
    found.push_back({std::string(resource.text({"group"})), std::string(resource.text({"name"})),
                     std::string(resource.text({"schema"})),
                     std::string(storage->text({"reference", "name"})),
                     std::string(storage->text({"identityHash"}))});
  }
  if (found.empty()) {
    if (const auto known = exports_.find(export_row(ref)); known != exports_.end()) {
      exports_.erase(known);
      ++generation_;
    }
  } else {
    ++generation_;
    exports_.insert_or_assign(export_row(ref), std::move(found));
  }
}

const VirtualResource* VirtualResources::find(const ExportRef& ref, std::string_view group,
                                              std::string_view plural) const {
  const auto known = exports_.find(export_row(ref));
  if (known == exports_.end()) {
    return nullptr;
  }
  for (const VirtualResource& one : known->second) {
    if (one.plural == plural && one.group == group) {
      return &one;
    }
  }
  return nullptr;
}

const VirtualResource* VirtualResources::bound(std::string_view cluster, std::string_view group,
                                               std::string_view plural, ExportRef& ref) const {
  const BoundKinds::From* from =
      exports_.empty() ? nullptr : bound_.export_of(cluster, group, plural);
  if (from == nullptr) {
    return nullptr;
  }
  ref = from->ref;
  return find(ref, group, plural);
}

const VirtualResource* VirtualResources::in_slice(const ExportRef& ref,
                                                  std::string_view slice) const {
  const auto known = exports_.find(export_row(ref));
  if (known == exports_.end()) {
    return nullptr;
  }
  const auto found = std::find_if(known->second.begin(), known->second.end(),
                                  [&](const VirtualResource& one) { return one.slice == slice; });
  return found == known->second.end() ? nullptr : &*found;
}

apiserver::ResourcePtr VirtualResources::shown(const apiserver::ResourcePtr& def) const {
  if (const auto known = shown_.find(def.get());
      known != shown_.end() && known->second.of.lock() == def) {
    return known->second.def;
  }
  if (shown_.size() >= kMostShown) {
    std::erase_if(shown_, [](const auto& one) { return one.second.of.expired(); });
  }
  return shown_.insert_or_assign(def.get(), Shown{def, only_for_reading(*def)}).first->second.def;
}

std::shared_ptr<apiserver::ResourceDef> only_for_reading(const apiserver::ResourceDef& def) {
  auto out = std::make_shared<apiserver::ResourceDef>(def);
  out->verbs = {"get", "list", "watch"};
  out->subresources.clear();
  out->hooks = {};
  for (apiserver::ResourceVersion& version : out->versions) {
    version.status = false;
    version.scale = {};
  }
  return out;
}

}  // namespace kintsugi::controlplane
