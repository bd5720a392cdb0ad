#include "apiserver/internal/discovery.h"

#include <algorithm>
#include <utility>

#include "apiserver/internal/scale.h"
#include "base/digest.h"
#include "krm/version_order.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;

Json strings(const std::vector<std::string>& list) {
  Json out = Json::array();
  for (const std::string& text : list) {
    out.push_back(text);
  }
  return out;
}

std::string storage_version_hash(const ResourceDef& def) {
  const std::string text =
      def.stored_under_group.value_or(def.group) + "/" +
      (def.hashed_version.empty() ? def.storage_version().name : def.hashed_version) + "/" +
      def.kind;
  return base64_encode(sha256_text(text).substr(0, 8));
}

const std::vector<std::string>& view_verbs() {
  static const std::vector<std::string> verbs = {"get", "patch", "update"};
  return verbs;
}

/// A subresource as both forms of discovery show it.
struct Subresource {
  std::string name, kind, group, version;
  const std::vector<std::string>* verbs;
};

std::vector<Subresource> subresources(const ResourceDef& def, const ResourceVersion& version) {
  std::vector<Subresource> out;
  if (version.status) {
    out.push_back({"status", def.kind, "", "", &view_verbs()});
  }
  if (!version.scale.spec_replicas.empty()) {
    out.push_back({"scale", "Scale", std::string(kScaleGroup), "v1", &view_verbs()});
  }
  for (const ResourceDef::ExtraSubresource& extra : def.subresources) {
    out.push_back({extra.name, extra.kind, extra.group, extra.version, &extra.verbs});
  }
  if (def.builtin) {
    std::sort(out.begin(), out.end(),
              [](const Subresource& a, const Subresource& b) { return a.name < b.name; });
  }
  return out;
}

std::vector<std::string> listed_verbs(const ResourceDef& def) {
  if (def.virtual_create_only) {
    return {"create"};
  }
  if (def.terminating) {
    return {"delete", "deletecollection", "get", "list", "watch"};
  }
  std::vector<std::string> verbs = def.verbs;
  std::sort(verbs.begin(), verbs.end());
  if (!def.builtin && verbs.size() == 8) {  // all of a definition's, in the reference's order
    return {"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"};
  }
  return verbs;
}

/// In aggregated documents.
std::vector<std::string> sorted_verbs(const ResourceDef& def) {
  std::vector<std::string> verbs = listed_verbs(def);
  std::sort(verbs.begin(), verbs.end());
  return verbs;
}

void append_resource(Json& list, const ResourceDef& def, const ResourceVersion& version) {
  Json entry = Json::object({{"name", def.plural},
                             {"singularName", def.singular},
                             {"namespaced", def.namespaced},
                             {"kind", def.kind},
                             {"verbs", strings(listed_verbs(def))}});
  if (!def.short_names.empty()) {
    entry["shortNames"] = strings(def.short_names);
  }
  if (!def.categories.empty()) {
    entry["categories"] = strings(def.categories);
  }
  if (!def.virtual_create_only) {
    entry["storageVersionHash"] = storage_version_hash(def);
  }
  list.push_back(std::move(entry));
  for (const Subresource& sub : subresources(def, version)) {
    Json shown = Json::object({{"name", def.plural + "/" + sub.name},
                               {"singularName", ""},
                               {"namespaced", def.namespaced},
                               {"kind", sub.kind},
                               {"verbs", strings(*sub.verbs)}});
    if (!sub.version.empty()) {
      shown["group"] = sub.group;
      shown["version"] = sub.version;
    }
    list.push_back(std::move(shown));
  }
}

Json response_kind(std::string_view group, std::string_view version, std::string_view kind) {
  return Json::object({{"group", group}, {"version", version}, {"kind", kind}});
}

Json aggregated_resource(const ResourceDef& def, const ResourceVersion& version) {
  // Builtin servers leave group and version out where they are those of the list.
  const std::string group = def.builtin ? "" : def.group;
  const std::string own_version = def.builtin ? "" : version.name;
  Json entry = Json::object({{"resource", def.plural},
                             {"responseKind", response_kind(group, own_version, def.kind)},
                             {"scope", def.namespaced ? "Namespaced" : "Cluster"},
                             {"singularResource", def.singular},
                             {"verbs", strings(sorted_verbs(def))}});
  if (!def.short_names.empty()) {
    entry["shortNames"] = strings(def.short_names);
  }
  if (!def.categories.empty()) {
    entry["categories"] = strings(def.categories);
  }
  for (const Subresource& sub : subresources(def, version)) {
    Json kind = sub.version.empty() ? response_kind(group, own_version, sub.kind)
                                    : response_kind(sub.group, sub.version, sub.kind);
    entry["subresources"].push_back(Json::object({{"subresource", sub.name},
                                                  {"responseKind", std::move(kind)},
                                                  {"verbs", strings(*sub.verbs)}}));
  }
  return entry;
}

}  // namespace

Discovery::Cluster& Discovery::cluster(std::string_view name) {
  const std::uint64_t generation = registry_.generation(name);
  const auto found = clusters_.find(name);
  if (found != clusters_.end() && found->second->generation == generation) {
    return *found->second;
  }
  if (clusters_.size() >= kMaxClusters) {
    clusters_.clear();
  }
  auto made = std::make_unique<Cluster>();
  made->generation = generation;
  for (const ResourcePtr& def : registry_.all(name)) {
    auto group = std::find_if(made->groups.begin(), made->groups.end(),
                              [&](const Group& known) { return known.name == def->group; });
    for (const ResourceVersion& version : def->versions) {
      if (!version.served) {
        continue;
      }
      if (group == made->groups.end()) {
        made->groups.push_back({def->group, {}, {}});
        group = made->groups.end() - 1;
      }
      if (std::find(group->versions.begin(), group->versions.end(), version.name) ==
          group->versions.end()) {
        group->versions.push_back(version.name);
      }
    }
    if (group != made->groups.end()) {
      group->resources.push_back(def);
    }
  }
  for (Group& group : made->groups) {
    std::stable_sort(group.versions.begin(), group.versions.end(), krm::is_preferred_version);
  }
  return *(clusters_[std::string(name)] = std::move(made));
}

const Discovery::Group* Discovery::find(const Cluster& cluster, std::string_view name) {
  for (const Group& group : cluster.groups) {
    if (group.name == name) {
      return &group;
    }
  }
  return nullptr;
}

Json Discovery::group_json(const Group& group) {
  Json out = Json::object({{"name", group.name}});
  for (const std::string& version : group.versions) {
    out["versions"].push_back(
        Json::object({{"groupVersion", group.name + "/" + version}, {"version", version}}));
  }
  out["preferredVersion"] = out["versions"].items().front();
  return out;
}

std::string Discovery::groups(std::string_view name) {
  Json list = Json::array();
  for (const Group& group : cluster(name).groups) {
    if (!group.name.empty()) {
      list.push_back(group_json(group));
    }
  }
  return Json::object({{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(list)}})
      .dump();
}

std::string Discovery::group(std::string_view name, std::string_view group_name) {
  const Group* found = group_name.empty() ? nullptr : find(cluster(name), group_name);
  if (found == nullptr) {
    return {};
  }
  Json out = group_json(*found);
  out["kind"] = "APIGroup";
  out["apiVersion"] = "v1";
  return out.dump();
}

std::string Discovery::resources(std::string_view name, std::string_view group_name,
                                 std::string_view version_name) {
  const Group* found = find(cluster(name), group_name);
  Json list = Json::array();
  if (found != nullptr) {
    for (const ResourcePtr& def : found->resources) {
      const ResourceVersion* version = def->version(version_name);
      if (version != nullptr && version->served) {
        append_resource(list, *def, *version);
      }
    }
  }
  if (list.size() == 0 && !registry_.is_known_elsewhere(group_name, version_name)) {
    return {};
  }
  std::string group_version(group_name);
  if (!group_version.empty()) {
    group_version += '/';
  }
  group_version += version_name;
  Json out = Json::object({{"kind", "APIResourceList"},
                           {"groupVersion", std::move(group_version)},
                           {"resources", std::move(list)}});
  if (!group_name.empty()) {
    out["apiVersion"] = "v1";
  }
  return out.dump();
}

bool Discovery::has_core(std::string_view name) { return find(cluster(name), "") != nullptr; }

std::vector<std::string> Discovery::paths(std::string_view name) {
  std::vector<std::string> out = {"/api",    "/apis",        "/healthz",    "/healthz/ping",
                                  "/livez",  "/livez/ping",  "/openapi/v2", "/openapi/v3",
                                  "/readyz", "/readyz/ping", "/version"};
  for (const Group& group : cluster(name).groups) {
    const std::string root = group.name.empty() ? "/api" : "/apis/" + group.name;
    if (!group.name.empty()) {
      out.push_back(root);
    }
    for (const std::string& version : group.versions) {
      out.push_back(root + "/" + version);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

Json Discovery::aggregated_group(const Group& group) {
  Json out = Json::object({{"metadata", Json::object()}});
  if (!group.name.empty()) {
    out["metadata"]["name"] = group.name;
  }
  for (const std::string& version_name : group.versions) {
    Json version = Json::object({{"version", version_name}, {"freshness", "Current"}});
    for (const ResourcePtr& def : group.resources) {
      const ResourceVersion* served = def->version(version_name);
      if (served != nullptr && served->served) {
        version["resources"].push_back(aggregated_resource(*def, *served));
      }
    }
    out["versions"].push_back(std::move(version));
  }
  return out;
}

std::shared_ptr<const Discovery::Document> Discovery::aggregated(std::string_view name, bool core) {
  Cluster& known = cluster(name);
  std::shared_ptr<const Document>& slot = known.documents[core ? 1 : 0];
  if (slot == nullptr) {
    Json items = Json::array();
    for (const Group& group : known.groups) {
      if (group.name.empty() == core) {
        items.push_back(aggregated_group(group));
      }
    }
    Document document;
    document.json = Json::object({{"kind", "APIGroupDiscoveryList"},
                                  {"apiVersion", "apidiscovery.k8s.io/v2"},
                                  {"metadata", Json::object()},
                                  {"items", std::move(items)}})
                        .dump();
    document.etag = sha256_hex(document.json);
    std::transform(document.etag.begin(), document.etag.end(), document.etag.begin(),
                   [](char c) { return c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c; });
    slot = std::make_shared<const Document>(std::move(document));
  }
  return slot;
}

}  // namespace kintsugi::apiserver::internal
