#include "controlplane/admission/cached_resource_admission.h"

#include <string>
#include <utility>

#include "controlplane/catalog/cached_resources.h"
#include "controlplane/internal/names.h"
#include "krm/go_text.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kRights = "rbac.authorization.k8s.io";

std::string resource_text(const CachedResource& resource) {
  return resource.group.empty() ? resource.plural : resource.plural + "." + resource.group;
}

std::string cached_fault(const apiserver::Registry& registry,
                         const apiserver::WriteContext& context, const Json& object,
                         const CachedResource& resource) {
  const auto invalid = [](std::string_view value, std::string_view text) {
    return "spec: Invalid value: " + krm::go_quote(value) + ": " + std::string(text);
  };
  const apiserver::ResourcePtr def =
      registry.find(context.cluster, resource.group, resource.plural);
  const bool namespaced = def != nullptr && def->namespaced;
  const bool is_never = is_never_cached(resource.group, resource.plural);
  if (is_never && !(namespaced && resource.group == kRights)) {  // as kcp answers for roles
    return invalid(resource_text(resource), "resource cannot be cached");
  }
  if (namespaced) {
    return invalid(resource_text(resource),
                   "Resource referenced in ClusterCachedResource must be cluster-scoped");
  }
  std::string other;
  context.reader.list(context.cluster, kCacheGroup, kCachedResources, "", [&](const Json& one) {
    CachedResource known = read_cached_resource(one);
    known.uid = resource.uid;
    if (known == resource && one.text({"metadata", "name"}) != object.text({"metadata", "name"})) {
      other = invalid(resource.group + "." + resource.version + "." + resource.plural,
                      "ClusterCachedResource with this GVR already exists in the " +
                          krm::go_quote(context.cluster) + " workspace");
    }
    return other.empty();
  });
  return other;
}

}  // namespace

void approve_cached_resource(const apiserver::Registry& registry, auth::Authorizer& authorizer,
                             const apiserver::WriteContext& context, const Json* object,
                             const Json* old, apiserver::Hooks::AdmitDone done) {
  if (object == nullptr || !context.subresource.empty()) {
    done({});
    return;
  }
  CachedResource resource = read_cached_resource(*object);
  if (old != nullptr) {
    CachedResource before = read_cached_resource(*old);
    before.uid = resource.uid;
    if (before == resource) {
      done({});
      return;
    }
  }
  const std::string name(object->text({"metadata", "name"}));
  const auto refused = [name](std::string_view text) {
    return krm::forbidden(kCacheGroup, kCachedResources, name, text);
  };
  if (const std::string fault = cached_fault(registry, context, *object, resource);
      !fault.empty()) {
    done(fail(refused(fault)));
    return;
  }
  auth::Attributes asked;
  asked.user = context.user;
  asked.cluster = context.cluster;
  asked.verb = "list";
  asked.group = resource.group;
  asked.version = resource.version;
  asked.resource = resource.plural;
  authorizer.authorize(
      asked, [refused, resource, done = std::move(done)](const Expected<auth::Decision>& decision) {
        if (!decision) {
          done(fail(decision.error().clone()));
        } else if (!decision->allowed) {
          done(fail(refused("spec: Invalid value: " + krm::go_quote(resource_text(resource)) +
                            ": whoever offers a resource must be able to list it")));
        } else {
          done({});
        }
      });
}

}  // namespace kintsugi::controlplane
