#include "apiserver/internal/openapi.h"

#include <algorithm>
#include <utility>

#include "apiserver/internal/openapi_names.h"
#include "apiserver/internal/openapi_paths.h"
#include "apiserver/internal/openapi_schemas.h"
#include "base/digest.h"
#include "http/gzip.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;

constexpr std::string_view kTitle = "Kubernetes";
constexpr std::string_view kVersion = "v1.36.0+kintsugi-0.1.0";

Json skeleton() {
  return Json::object({{"openapi", "3.0.0"},
                       {"info", Json::object({{"title", kTitle}, {"version", kVersion}})},
                       {"paths", Json::object()}});
}

std::string key_of(std::string_view group, std::string_view version) {
  std::string key = group.empty() ? "api" : "apis/" + std::string(group);
  if (!version.empty()) {
    key += '/';
    key += version;
  }
  return key;
}

/// Group and version with the resources that serve it.
struct GroupVersion {
  std::string group, version;
  std::vector<ResourcePtr> resources;
};

std::vector<GroupVersion> group_versions(const std::vector<ResourcePtr>& all) {
  std::vector<GroupVersion> out;
  for (const ResourcePtr& def : all) {
    for (const ResourceVersion& version : def->versions) {
      if (!version.served) {
        continue;
      }
      auto known = std::find_if(out.begin(), out.end(), [&](const GroupVersion& each) {
        return each.group == def->group && each.version == version.name;
      });
      if (known == out.end()) {
        known = out.insert(out.end(), {def->group, version.name, {}});
      }
      known->resources.push_back(def);
    }
  }
  return out;
}

}  // namespace

std::string openapi_hash(std::string_view text) {
  const auto digest = sha512(text);
  std::string hex = hex_encode({reinterpret_cast<const char*>(digest.data()), digest.size()});
  std::transform(hex.begin(), hex.end(), hex.begin(),
                 [](char c) { return c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c; });
  return hex;
}

OpenApi::DocumentPtr OpenApi::keep(std::string key, Json document,
                                   std::vector<ResourcePtr> resources) {
  if (documents_.size() >= sweep_at_) {
    std::erase_if(documents_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max<std::size_t>(64, 2 * documents_.size());
  }
  Document made;
  made.json = document.dump();
  made.made_of = std::move(resources);
  made.hash = openapi_hash(made.json);
  auto kept = std::make_shared<const Document>(std::move(made));
  documents_[std::move(key)] = kept;
  return kept;
}

OpenApi::DocumentPtr OpenApi::known(const std::string& key) const {
  const auto found = documents_.find(key);
  return found == documents_.end() ? nullptr : found->second.lock();
}

OpenApi::DocumentPtr OpenApi::group_version(std::string_view group, std::string_view version,
                                            std::vector<ResourcePtr> resources) {
  std::string key = key_of(group, version);
  for (const ResourcePtr& def : resources) {
    key += ' ' + std::to_string(reinterpret_cast<std::uintptr_t>(def.get()));
  }
  if (DocumentPtr made = known(key)) {
    return made;
  }
  Json document = skeleton();
  OpenApiSchemas schemas(group, version);
  Json& paths = document["paths"];
  for (const ResourcePtr& def : resources) {
    add_openapi_paths(*def, *def->version(version), schemas, paths);
  }
  if (resources.front()->builtin) {
    add_openapi_discovery_path("/" + key_of(group, version) + "/",
                               "get" + operation_stem(group, version, true) + "APIResources",
                               "get available resources", paths);
  }
  document["components"]["schemas"] = schemas.take();
  return keep(std::move(key), std::move(document), std::move(resources));
}

OpenApi::DocumentPtr OpenApi::discovery(std::string_view key, std::string_view group,
                                        bool builtin) {
  // Keys with a space belong to group versions, so that these never meet them.
  const std::string name = std::string(key) + (builtin ? "" : "*");
  if (DocumentPtr made = known(name)) {
    return made;
  }
  Json document = skeleton();
  const std::string id = key == "version" ? "getCodeVersion"
                         : key == "api"   ? "getCoreAPIVersions"
                         : key == "apis"  ? "getAPIVersions"
                                          : "get" + operation_stem(group, "", builtin) + "APIGroup";
  add_openapi_discovery_path("/" + std::string(key) + "/", id,
                             key == "version" ? "get the version information for this server"
                                              : "get available API versions or groups",
                             document["paths"]);
  return keep(name, std::move(document), {});
}

OpenApi::Cluster& OpenApi::cluster(std::string_view name) {
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
  std::vector<Entry>& entries = made->entries;
  for (const std::string_view key : {"api", "apis", "version"}) {
    entries.push_back({std::string(key), discovery(key, "", true)});
  }
  std::string_view last_group;
  const std::vector<GroupVersion> served = group_versions(registry_.all(name));
  for (const GroupVersion& each : served) {
    if (each.group != last_group) {
      last_group = each.group;
      const std::string key = key_of(each.group, "");
      entries.push_back({key, discovery(key, each.group, each.resources.front()->builtin)});
    }
    entries.push_back({key_of(each.group, each.version),
                       group_version(each.group, each.version, each.resources)});
  }
  const auto by_key = [](const Entry& a, const Entry& b) { return a.key < b.key; };
  const auto same_key = [](const Entry& a, const Entry& b) { return a.key == b.key; };
  std::stable_sort(entries.begin(), entries.end(), by_key);
  entries.erase(std::unique(entries.begin(), entries.end(), same_key), entries.end());
  return *(clusters_[std::string(name)] = std::move(made));
}

std::string OpenApi::index(std::string_view name, std::string_view root) {
  Json paths = Json::object();
  for (const Entry& entry : cluster(name).entries) {
    paths[entry.key]["serverRelativeURL"] =
        std::string(root) + "/openapi/v3/" + entry.key + "?hash=" + entry.document->hash;
  }
  return Json::object({{"paths", std::move(paths)}}).dump();
}

OpenApi::DocumentPtr OpenApi::document(std::string_view name, std::string_view key) {
  const std::vector<Entry>& entries = cluster(name).entries;
  const auto found = std::lower_bound(
      entries.begin(), entries.end(), key,
      [](const Entry& entry, std::string_view wanted) { return entry.key < wanted; });
  return found != entries.end() && found->key == key ? found->document : nullptr;
}

std::string OpenApi::v2(std::string_view name, bool protobuf) {
  OpenApiV2Writer writer(protobuf);
  for (const Entry& entry : cluster(name).entries) {
    const Document& document = *entry.document;
    std::unique_ptr<const OpenApiV2Part>& part = document.v2[protobuf ? 1 : 0];
    if (part == nullptr) {
      const Expected<Json> v3 = Json::parse(document.json);
      const bool builtin = !document.made_of.empty() && document.made_of.front()->builtin;
      part = std::make_unique<const OpenApiV2Part>(v3 ? openapi_v2_part(*v3, builtin, protobuf)
                                                      : OpenApiV2Part());
    }
    writer.add(*part);
  }
  return writer.take(kTitle, kVersion);
}

SharedBytes OpenApi::v2_buffer(std::string_view name, bool protobuf, bool gzip) {
  std::string hash = v2_hash(name, protobuf);
  const auto known = std::find_if(buffers_.begin(), buffers_.end(), [&](const Buffer& one) {
    return one.gzip == gzip && one.hash == hash;
  });
  if (known != buffers_.end()) {
    std::rotate(known, known + 1, buffers_.end());
    return buffers_.back().bytes;
  }
  std::string text = v2(name, protobuf);
  if (gzip) {
    std::string packed;
    http::Gzip().write(text, true, packed);
    text = std::move(packed);
  }
  if (buffers_.size() == kBuffers) {
    buffers_.erase(buffers_.begin());
  }
  buffers_.push_back({std::move(hash), gzip, SharedBytes(text)});
  return buffers_.back().bytes;
}

std::string OpenApi::v2_hash(std::string_view name, bool protobuf) {
  std::string all = protobuf ? "v2 protobuf" : "v2 json";
  for (const Entry& entry : cluster(name).entries) {
    all += ' ' + entry.key + ' ' + entry.document->hash;
  }
  return openapi_hash(all);
}

}  // namespace kintsugi::apiserver::internal
