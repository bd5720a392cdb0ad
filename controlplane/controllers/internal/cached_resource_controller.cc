#include "controlplane/controllers/internal/cached_resource_controller.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "apiserver/keys.h"
#include "controlplane/catalog/cached_resources.h"
#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/internal/names.h"
#include "controlplane/views/partition_view.h"
#include "krm/path_prefixes.h"
#include "krm/selector.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr Duration kCountAfter = seconds(1);
constexpr std::string_view kResourceValid = "ResourceValid";
constexpr std::string_view kReplicationStarted = "ReplicationStarted";

apiserver::ObjectKey cached_key(std::string_view cluster, std::string_view resource,
                                std::string_view name) {
  return {std::string(cluster), std::string(kCacheGroup), std::string(resource), "",
          std::string(name)};
}

/// What is wrong with the resource; "" when it can be offered.
std::pair<std::string, std::string> resource_fault(const apiserver::ResourcePtr& def,
                                                   const CachedResource& resource) {
  const std::string name = "Resource " + resource.plural;
  if (def == nullptr || def->version(resource.version) == nullptr ||
      !def->version(resource.version)->served) {
    return {"NoResources", name + " is not served in this version"};
  }
  if (def->namespaced) {
    return {"ResourceNotClusterScoped", name + " is not cluster-scoped"};
  }
  if (is_never_cached(resource.group, resource.plural) || def->virtual_create_only ||
      !def->has_verb("list")) {
    return {"NoResources", name + " cannot be cached"};
  }
  return {};
}

void count_objects(const apiserver::ObjectReader& reader, std::string_view cluster,
                   const CachedResource& resource, const apiserver::ResourceDef& def,
                   Json& object) {
  const Json* given = object.at({"spec", "labelSelector"});
  Expected<krm::Selector> selector =
      given == nullptr ? krm::Selector() : krm::Selector::from_json(*given);
  std::int64_t count = 0;
  if (selector) {
    const std::string plural =
        def.identity.empty() ? resource.plural : resource.plural + ":" + def.identity;
    reader.list(cluster, resource.group, plural, "", [&](const Json& one) {
      const Json* labels = one.at({"metadata", "labels"});
      count += selector->matches(labels == nullptr ? Json() : *labels) ? 1 : 0;
      return true;
    });
  }
  object.make({"status", "resourceCounts"}) =
      Json::object({{"cache", Json(count)}, {"local", Json(count)}});
}

}  // namespace

CachedResourceController::CachedResourceController(const apiserver::ControllerContext& context)
    : apiserver::ControllerBase(context, "kintsugi-cached-resources") {}

void CachedResourceController::start() {
  follow(kCacheGroup, kCachedResources, [this](const apiserver::ApiServer::Change& change) {
    if (change.object != nullptr) {
      queue_.add(cached_key(change.cluster, kCachedResources, change.name).pack());
    }
  });
  const auto kinds_changed = [this](const apiserver::ApiServer::Change& change) {
    add_cluster(change.cluster);
  };
  follow(kApisGroup, kApiBindings, kinds_changed);
  follow("apiextensions.k8s.io", "customresourcedefinitions", kinds_changed);
}

void CachedResourceController::add_cluster(std::string_view cluster) {
  reader().list(cluster, kCacheGroup, kCachedResources, "", [&](const Json& one) {
    queue_.add(cached_key(cluster, kCachedResources, one.text({"metadata", "name"})).pack());
    return true;
  });
}

void CachedResourceController::follow_objects(std::string_view group, std::string_view plural) {
  if (followed_.try_emplace(apiserver::stored_resource(group, plural), true).second) {
    follow(group, plural,
           [this, group = std::string(group),
            plural = std::string(plural)](const apiserver::ApiServer::Change& change) {
             objects_changed(change.cluster, group, plural);
           });
  }
}

void CachedResourceController::objects_changed(std::string_view cluster, std::string_view group,
                                               std::string_view plural) {
  reader().list(cluster, kCacheGroup, kCachedResources, "", [&](const Json& one) {
    const CachedResource resource = read_cached_resource(one);
    if (resource.group == group && resource.plural == plural) {
      queue_.add_after(cached_key(cluster, kCachedResources, one.text({"metadata", "name"})).pack(),
                       kCountAfter);
    }
    return true;
  });
}

void CachedResourceController::process(const std::string& text, Finished finished) {
  const apiserver::ObjectKey key = apiserver::ObjectKey::unpack(text);
  const std::optional<Json> found = get(key);
  if (!found) {
    finished(true);
    return;
  }
  const CachedResource resource = read_cached_resource(*found);
  Json updated = *found;
  if (apiserver::is_deleted(*found)) {
    set_kcp_condition(updated, kResourceValid, "False", "Error", "Deleting",
                      "Published resource deleting");
    updated.make({"status", "phase"}) = "Deleting";
  } else {
    follow_objects(resource.group, resource.plural);
    const apiserver::ResourcePtr def =
        context_.registry.find(key.cluster, resource.group, resource.plural);
    const auto [reason, message] = resource_fault(def, resource);
    if (!reason.empty()) {
      set_kcp_condition(updated, kResourceValid, "False", "Error", reason, message);
      updated.make({"status", "phase"}) = "Initializing";
    } else {
      set_kcp_condition(updated, kResourceValid, "True");
      count_objects(reader(), key.cluster, resource, *def, updated);
      if (!found->text({"status", "identityHash"}).empty()) {
        set_kcp_condition(updated, kReplicationStarted, "True");
        updated.make({"status", "phase"}) = "Ready";
      }
    }
  }
  settle_status(key, *found, std::move(updated), std::move(finished));
}

CachedSliceController::CachedSliceController(const apiserver::ControllerContext& context,
                                             store::Store& store, RootView& root,
                                             ApiCatalog& catalog)
    : apiserver::ControllerBase(context, "kintsugi-cached-slices"),
      root_(root),
      catalog_(catalog),
      notes_(context.loop, store) {}

void CachedSliceController::start() {
  follow(kCacheGroup, kCachedSlices, [this](const apiserver::ApiServer::Change& change) {
    if (change.object != nullptr) {
      queue_.add(cached_key(change.cluster, kCachedSlices, change.name).pack());
    }
    const std::string_view now =
        change.object == nullptr ? std::string_view() : change.object->text({"spec", "partition"});
    if (change.previous != nullptr && change.previous->text({"spec", "partition"}) != now) {
      forget_notes(change.cluster);
    }
  });
  follow(kFactsGroup, kPartitionFacts,
         [this](const apiserver::ApiServer::Change& change) { add_cluster(change.cluster); });
  follow(kCacheGroup, kCachedResources,
         [this](const apiserver::ApiServer::Change& change) { add_cluster(change.cluster); });
  catalog_.on_export(alive_.guard([this](const ExportRef& ref) { add_cluster(ref.cluster); }));
  root_.listen(alive_.guard([this] {
    reader().list("*", kCacheGroup, kCachedSlices, "", [this](const Json& slice) {
      queue_.add(
          cached_key(cluster_of(slice), kCachedSlices, slice.text({"metadata", "name"})).pack());
      return true;
    });
  }));
}

void CachedSliceController::add_cluster(std::string_view cluster) {
  reader().list(cluster, kCacheGroup, kCachedSlices, "", [&](const Json& slice) {
    queue_.add(cached_key(cluster, kCachedSlices, slice.text({"metadata", "name"})).pack());
    return true;
  });
}

void CachedSliceController::forget_notes(std::string_view cluster) {
  std::set<std::string, std::less<>> named;
  reader().list(cluster, kCacheGroup, kCachedSlices, "", [&](const Json& slice) {
    named.emplace(slice.text({"spec", "partition"}));
    return true;
  });
  std::vector<std::string> idle;
  reader().list(cluster, kFactsGroup, kPartitionFacts, "", [&](const Json& fact) {
    if (const std::string_view name = fact.text({"metadata", "name"}); !named.contains(name)) {
      idle.emplace_back(name);
    }
    return true;
  });
  for (std::string& name : idle) {
    notes_.erase({std::string(cluster), "", std::string(kPartitionFacts), "", std::move(name)});
  }
}

Json CachedSliceController::endpoints(const apiserver::ObjectKey& key,
                                      const krm::Selector& selector) const {
  std::set<std::string> urls;
  for (const auto& [name, shard] : root_.shards()) {
    if (!selector.matches(shard.labels.is_object() ? shard.labels : Json::object())) {
      continue;
    }
    std::string_view base = shard.virtual_workspace_url;
    while (base.ends_with('/')) {
      base.remove_suffix(1);
    }
    if (!base.empty()) {
      urls.insert(std::string(base) + std::string(krm::kServicesPrefix) + "replication/" +
                  key.cluster + "/" + key.name);
    }
  }
  Json list = Json::array();
  for (const std::string& url : urls) {
    list.push_back(Json::object({{"url", url}}));
  }
  return list;
}

/// Resource and export are those of the slice's own cluster: what others offer nobody else hands
/// on.
void CachedSliceController::settle(const apiserver::ObjectKey& key, Json& slice) const {
  const auto is_here = [&](std::string_view member) {
    const std::string_view path = slice.text({"spec", member, "path"});
    return path.empty() || path == key.cluster || path == catalog_.path_of(key.cluster);
  };
  bool valid = true;
  const auto refuse = [&](std::string_view type, std::string_view reason,
                          const std::string& message) {
    valid = false;
    set_kcp_condition(slice, type, "False", "Error", reason, message);
  };
  const std::string resource(slice.text({"spec", "clusterCachedResource", "name"}));
  const std::string resource_path(slice.text({"spec", "clusterCachedResource", "path"}));
  if (!is_here("clusterCachedResource") ||
      !reader().get(key.cluster, kCacheGroup, kCachedResources, "", resource)) {
    refuse(kResourceValid, "ClusterCachedResourceNotFound",
           "Error getting ClusterCachedResource " +
               (resource_path.empty() ? key.cluster : resource_path) + "|" + resource);
  } else {
    set_kcp_condition(slice, kResourceValid, "True");
  }
  const std::string name(slice.text({"spec", "export", "name"}));
  const std::string path(slice.text({"spec", "export", "path"}));
  const std::string shown = "APIExport " + (path.empty() ? key.cluster : path) + "|" + name;
  const std::optional<Json> api_export =
      is_here("export") ? reader().get(key.cluster, kApisGroup, kApiExports, "", name)
                        : std::nullopt;
  const Json* resources = api_export ? api_export->at({"spec", "resources"}) : nullptr;
  const Json::Array none;
  const Json::Array& all = resources == nullptr ? none : resources->items();
  if (!api_export) {
    refuse("APIExportValid", "APIExportInvalidReference", shown + " not found");
  } else if (std::none_of(all.begin(), all.end(), [&](const Json& one) {
               return one.text({"storage", "virtual", "reference", "name"}) == key.name &&
                      one.text({"storage", "virtual", "reference", "apiGroup"}) == kCacheGroup;
             })) {
    refuse("APIExportValid", "APIExportInvalidReference",
           shown + " does not reference this ClusterCachedResourceEndpointSlice");
  } else {
    set_kcp_condition(slice, "APIExportValid", "True");
  }
  Expected<krm::Selector> selector = krm::Selector();
  Json& status = slice.make({"status"});
  if (const std::string partition(slice.text({"spec", "partition"})); partition.empty()) {
    set_kcp_condition(slice, "PartitionValid", "True");
    status.erase("shardSelector");
  } else if (const std::optional<Json> note =
                 read_fact(reader(), key.cluster, kPartitionFacts, partition);
             !note) {
    refuse("PartitionValid", "PartitionInvalidReference",
           "partitions.topology.kcp.io \"" + partition + "\" not found");
    status.erase("shardSelector");
  } else {
    const Json* given = note->find("selector");
    selector = given == nullptr ? krm::Selector() : krm::Selector::from_json(*given);
    if (!selector) {  // what was published stays
      refuse("PartitionValid", "PartitionInvalidReference",
             std::string(selector.error().message()));
      return;
    }
    set_kcp_condition(slice, "PartitionValid", "True");
    if (const std::string text = selector->to_string(); text.empty()) {
      status.erase("shardSelector");
    } else {
      status["shardSelector"] = text;
    }
  }
  status["endpoints"] = valid ? endpoints(key, *selector) : Json::array();
}

void CachedSliceController::process(const std::string& text, Finished finished) {
  const apiserver::ObjectKey key = apiserver::ObjectKey::unpack(text);
  const std::optional<Json> found = get(key);
  if (!found || apiserver::is_deleted(*found) || !root_.synced()) {
    finished(true);  // the root's news queue it
    return;
  }
  Json updated = *found;
  settle(key, updated);
  settle_status(key, *found, std::move(updated), std::move(finished));
}

}  // namespace kintsugi::controlplane
