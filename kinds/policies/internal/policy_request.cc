#include "kinds/policies/internal/policy_request.h"

#include <utility>

#include "auth/user_document.h"
#include "krm/annotations.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

Json named(const GroupVersionName& what, std::string_view member) {
  return Json::object({{"group", what.group}, {"version", what.version}, {member, what.name}});
}

std::string operation_name(apiserver::Operation operation) {
  return operation == apiserver::Operation::kCreate   ? "CREATE"
         : operation == apiserver::Operation::kUpdate ? "UPDATE"
                                                      : "DELETE";
}

}  // namespace

Json PolicyRequest::document(const GroupVersionName& matched_resource,
                             const GroupVersionName& matched_kind) const {
  Json out = Json::object({{"uid", ""},
                           {"kind", named(matched_kind, "kind")},
                           {"resource", named(matched_resource, "resource")},
                           {"requestKind", named(kind, "kind")},
                           {"requestResource", named(resource, "resource")},
                           {"operation", operation},
                           {"userInfo", user},
                           {"dryRun", dry_run},
                           {"options", options}});
  const auto set = [&out](std::string_view member, const std::string& text) {
    if (!text.empty()) {
      out[member] = text;
    }
  };
  set("subResource", subresource);
  set("requestSubResource", subresource);
  set("name", name);
  set("namespace", ns);
  return out;
}

cel::AccessQuestion PolicyRequest::access_question() const {
  cel::AccessQuestion out;
  out.group = resource.group;
  out.resource = resource.name;
  out.subresource = subresource;
  out.ns = ns;
  out.name = name;
  return out;
}

PolicyRequest policy_request(const apiserver::PendingWrite& write,
                             const apiserver::Review& review) {
  const apiserver::ResourceDef& def = *write.kind->def;
  PolicyRequest out;
  out.operation = operation_name(review.operation);
  out.resource = {def.group, write.kind->version->name, def.plural};
  out.kind = review.kind;
  out.subresource = write.subresource;
  // The reference takes a Namespace's own name for its namespace.
  const bool is_namespace = def.group.empty() && def.plural == "namespaces";
  out.ns = is_namespace ? write.name : write.ns;
  out.name = review.name;
  out.user = user_document(write.user);
  out.options = write.options_document(review.operation);
  out.dry_run = write.is_dry_run();
  return out;
}

Json namespace_document(const Json& object) {
  Json out = Json::object();
  for (const char* member : {"metadata", "spec", "status"}) {
    if (const Json* value = object.find(member)) {
      out[member] = *value;
    }
  }
  for (const char* member : {"managedFields", "ownerReferences", "selfLink"}) {
    out["metadata"].erase(member);
  }
  hide_cluster(out);
  return out;
}

void hide_cluster(Json& object) {
  Json* annotations = object.at({"metadata", "annotations"});
  if (annotations != nullptr && annotations->erase(krm::kClusterAnnotation) &&
      annotations->size() == 0) {
    object["metadata"].erase("annotations");
  }
}

}  // namespace kintsugi::kinds
