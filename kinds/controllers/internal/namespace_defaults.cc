#include "kinds/controllers/internal/namespace_defaults.h"

#include <utility>

#include "krm/annotations.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;
constexpr std::string_view kCaName = "kube-root-ca.crt";
constexpr std::string_view kCaKey = "ca.crt";
constexpr std::string_view kDescription =
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
    "guaranteed across distributions of Kubernetes clusters.";

/// An object that somebody else made in the meantime is as good.
bool is_there(const Expected<Json>& created) {
  return created || created.error().code() == Errc::kAlreadyExists;
}

Json new_object(const char* kind, const apiserver::ObjectKey& key) {
  Json object = Json::object({{"apiVersion", "v1"}, {"kind", kind}});
  object.make({"metadata", "name"}) = key.name;
  if (!key.ns.empty()) {
    object.make({"metadata", "namespace"}) = key.ns;
  }
  return object;
}

}  // namespace

NamespaceDefaults::NamespaceDefaults(const apiserver::ControllerContext& context,
                                     NamespaceDefaultsParams params)
    : apiserver::ControllerBase(context, "kintsugi-namespace-defaults"),
      params_(std::move(params)) {}

void NamespaceDefaults::start() {
  follow("", "namespaces", [this](const apiserver::ApiServer::Change& change) {
    if (change.object == nullptr) {
      if (params_.namespaces && (change.name == "default" || change.name == "kube-system")) {
        queue_.add(apiserver::ObjectKey{change.cluster, "", "namespaces", "", change.name}.pack());
      }
    } else if (change.previous == nullptr && !apiserver::is_deleted(*change.object)) {
      enqueue_content(change.cluster, change.name);
    }
  });
  if (params_.service_account) {
    follow("", "serviceaccounts", [this](const apiserver::ApiServer::Change& change) {
      if (change.object == nullptr && change.name == "default") {
        enqueue_content(change.cluster, change.ns);
      }
    });
  }
  if (!params_.root_ca_pem.empty()) {
    follow("", "configmaps", [this](const apiserver::ApiServer::Change& change) {
      if (change.name == kCaName) {
        enqueue_content(change.cluster, change.ns);
      }
    });
  }
}

void NamespaceDefaults::add_cluster(std::string_view cluster) {
  if (params_.namespaces) {
    for (const char* name : {"default", "kube-system"}) {
      queue_.add(apiserver::ObjectKey{std::string(cluster), "", "namespaces", "", name}.pack());
    }
  }
  reader().list(cluster, "", "namespaces", "", [&](const Json& object) {
    if (!apiserver::is_deleted(object)) {
      enqueue_content(cluster, object.text({"metadata", "name"}));
    }
    return true;
  });
}

void NamespaceDefaults::enqueue_content(std::string_view cluster, std::string_view ns) {
  if (params_.service_account) {
    queue_.add(apiserver::ObjectKey{std::string(cluster), "", "serviceaccounts", std::string(ns),
                                    "default"}
                   .pack());
  }
  if (!params_.root_ca_pem.empty()) {
    queue_.add(apiserver::ObjectKey{std::string(cluster), "", "configmaps", std::string(ns),
                                    std::string(kCaName)}
                   .pack());
  }
}

bool NamespaceDefaults::takes_content(const apiserver::ObjectKey& key) const {
  const std::optional<Json> ns = reader().get(key.cluster, "", "namespaces", "", key.ns);
  return ns && !apiserver::is_deleted(*ns);
}

void NamespaceDefaults::process(const std::string& text, Finished finished) {
  const apiserver::ObjectKey key = apiserver::ObjectKey::unpack(text);
  if (params_.wanted && !params_.wanted(key.cluster)) {
    finished(true);
  } else if (key.resource == "namespaces") {
    ensure_namespace(key, std::move(finished));
  } else if (!takes_content(key)) {
    finished(true);
  } else if (key.resource == "serviceaccounts") {
    ensure_account(key, std::move(finished));
  } else {
    ensure_ca(key, std::move(finished));
  }
}

void NamespaceDefaults::ensure_namespace(const apiserver::ObjectKey& key, Finished finished) {
  if (get(key)) {
    finished(true);
    return;
  }
  create(key, new_object("Namespace", key),
         [finished = std::move(finished)](Expected<Json> result) { finished(is_there(result)); });
}

void NamespaceDefaults::ensure_account(const apiserver::ObjectKey& key, Finished finished) {
  if (get(key)) {
    finished(true);
    return;
  }
  create(key, new_object("ServiceAccount", key),
         [finished = std::move(finished)](Expected<Json> result) { finished(is_there(result)); });
}

void NamespaceDefaults::ensure_ca(const apiserver::ObjectKey& key, Finished finished) {
  std::optional<Json> present = get(key);
  Json object = present ? std::move(*present) : new_object("ConfigMap", key);
  if (present) {
    const Json* data = object.find("data");
    if (data != nullptr && data->size() == 1 && data->text({kCaKey}) == params_.root_ca_pem) {
      finished(true);
      return;
    }
    object.erase("binaryData");
  }
  object["data"] = Json::object({{kCaKey, Json(params_.root_ca_pem)}});
  object.make({"metadata", "annotations", krm::kDescriptionAnnotation}) = kDescription;
  auto done = [finished = std::move(finished)](Expected<Json> result) {
    finished(is_there(result));
  };
  if (present) {
    update(key, "", std::move(object), std::move(done));
  } else {
    create(key, std::move(object), std::move(done));
  }
}

}  // namespace kintsugi::kinds
