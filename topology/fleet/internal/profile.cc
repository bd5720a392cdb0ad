#include "topology/fleet/internal/profile.h"

#include <algorithm>

#include "krm/names.h"
#include "topology/fleet/provider.h"

namespace kintsugi::topology {

using krm::Json;

namespace {

constexpr std::size_t kMostLabels = 256, kMostProperties = 1'000, kMostProviders = 64;
constexpr std::string_view kManagerLabel = "x-k8s.io/cluster-manager";
constexpr std::string_view kSecretType = "cluster.x-k8s.io/secret";
constexpr std::string_view kSecretEnding = "-kubeconfig";
constexpr std::string_view kSecretKey = "value";

void add_label(FleetObject& out, std::string_view key, std::string_view value) {
  if (!krm::check_qualified_name(key).empty() || !krm::check_label_value(value).empty()) {
    ++out.left_out;
    return;
  }
  const auto at =
      std::lower_bound(out.labels.begin(), out.labels.end(), key,
                       [](const auto& one, std::string_view wanted) { return one.first < wanted; });
  if (at != out.labels.end() && at->first == key) {
    at->second = value;
  } else {
    out.labels.emplace(at, key, value);
  }
}

Judged<FleetObject> read_metadata(const Json& object) {
  FleetObject out;
  out.ns = object.text({"metadata", "namespace"});
  out.name = object.text({"metadata", "name"});
  out.uid = object.text({"metadata", "uid"});
  if (out.name.empty() || out.uid.empty()) {
    return fault(FleetReason::kBadProfile, "metadata: has no name, or no uid");
  }
  return out;
}

Judged<void> take_labels(const Json& object, FleetObject& out) {
  const Json* labels = object.at({"metadata", "labels"});
  if (labels == nullptr) {
    return {};
  }
  if (labels->size() > kMostLabels) {
    return fault(FleetReason::kBadProfile, "metadata.labels: more than 256");
  }
  for (const auto& [key, value] : labels->members()) {
    add_label(out, key, value.as_string());
  }
  return {};
}

Judged<void> take_properties(const Json& object, const FleetOptions& options, FleetObject& out) {
  const Json* properties = object.at({"status", "properties"});
  if (properties == nullptr) {
    return {};
  }
  if (properties->size() > kMostProperties) {
    return fault(FleetReason::kBadProfile, "status.properties: more than 1000");
  }
  for (const Json& property : properties->items()) {
    const std::string_view name = property.text({"name"});
    if (std::find(options.properties.begin(), options.properties.end(), name) !=
        options.properties.end()) {
      add_label(out, name, property.text({"value"}));
    }
  }
  return {};
}

Judged<void> take_providers(const Json& object, FleetObject& out) {
  for (const std::string_view field : {"accessProviders", "credentialProviders"}) {
    const Json* list = object.at({"status", field});
    if (list == nullptr) {
      continue;
    }
    if (list->size() > kMostProviders) {
      return fault(FleetReason::kBadProfile, "status." + std::string(field) + ": more than 64");
    }
    for (const Json& one : list->items()) {
      const Json* cluster = one.find("cluster");
      out.providers.push_back(
          {std::string(one.text({"name"})), cluster != nullptr ? *cluster : Json::object({})});
    }
  }
  return {};
}

std::string owner_uid(const Json& secret) {
  const Json* owners = secret.at({"metadata", "ownerReferences"});
  for (const Json& owner : owners != nullptr ? owners->items() : Json::Array()) {
    if (owner.text({"kind"}) == "Cluster" &&
        owner.text({"apiVersion"}).starts_with("cluster.x-k8s.io/")) {
      return std::string(owner.text({"uid"}));
    }
  }
  return {};
}

}  // namespace

Judged<FleetObject> read_profile(const Json& object, const FleetOptions& options) {
  auto out = read_metadata(object);
  if (!out) {
    return out;
  }
  auto taken = take_labels(object, *out);
  taken = taken ? take_properties(object, options, *out) : std::move(taken);
  taken = taken ? take_providers(object, *out) : std::move(taken);
  if (!taken) {
    return tl::unexpected<FleetFault>(std::move(taken.error()));
  }
  if (const std::string_view manager = object.text({"spec", "clusterManager", "name"});
      !manager.empty()) {
    add_label(*out, kManagerLabel, manager);
  }
  const Json* conditions = object.at({"status", "conditions"});
  for (const Json& one : conditions != nullptr ? conditions->items() : Json::Array()) {
    if (one.text({"type"}) == "ControlPlaneHealthy" && one.text({"status"}) != "Unknown") {
      out->healthy = one.text({"status"}) == "True";
    }
  }
  return out;
}

bool is_cluster_api_secret(const Json& object) {
  const std::string_view cluster = object.text({"metadata", "labels", kClusterNameLabel});
  return object.text({"type"}) == kSecretType && !cluster.empty() &&
         object.text({"metadata", "name"}) == std::string(cluster) + std::string(kSecretEnding);
}

Judged<FleetObject> read_cluster_api_secret(const Json& object, const Json* cluster) {
  auto out = read_metadata(object);
  if (!out) {
    return out;
  }
  out->cluster = object.text({"metadata", "labels", kClusterNameLabel});
  out->name = out->cluster;
  if (const std::string owner = owner_uid(object); !owner.empty()) {
    out->uid = owner;
  }
  if (auto taken = label_by(cluster != nullptr ? *cluster : object, *out); !taken) {
    return tl::unexpected<FleetFault>(std::move(taken.error()));
  }
  return out;
}

Judged<void> label_by(const Json& object, FleetObject& out) {
  out.labels.clear();
  out.left_out = 0;
  return take_labels(object, out);
}

Judged<FleetSecretName> secret_of(const FleetObject& profile, const Json& cluster) {
  const auto refuse = [](std::string what) {
    return fault(FleetReason::kBadProfile, "extension " + std::string(kExecExtension) + "." + what);
  };
  const Json* extension = fleet_extension(cluster, kExecExtension);
  FleetSecretName out;
  out.key = kSecretKey;
  if (extension == nullptr) {
    out.name = profile.name + std::string(kSecretEnding);
    return out;
  }
  out.name = extension->text({"name"});
  if (!krm::check_dns1123_subdomain(out.name).empty()) {
    return refuse("name: must be the name of a Secret");
  }
  if (const std::string_view ns = extension->text({"namespace"}); !ns.empty() && ns != profile.ns) {
    return refuse("namespace: must be the profile's");
  }
  if (const std::string_view key = extension->text({"key"}); !key.empty()) {
    out.key = key;
  }
  if (!krm::check_config_key(out.key).empty()) {
    return refuse("key: must be a key of a Secret's data");
  }
  out.context = extension->text({"context"});
  return out;
}

}  // namespace kintsugi::topology
