#include "apiserver/internal/policy_request.h"

#include <utility>

#include "auth/user_document.h"
#include "krm/annotations.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;

Json named(const GroupVersionName& what, std::string_view member) {
  return Json::object({{"group", what.group}, {"version", what.version}, {member, what.name}});
}

Json options_of(const WriteOp& op, std::string_view operation) {
  const std::string_view kind = operation == "CREATE"   ? "CreateOptions"
                                : operation == "DELETE" ? "DeleteOptions"
                                                        : "UpdateOptions";
  Json out = Json::object({{"kind", kind}, {"apiVersion", "meta.k8s.io/v1"}});
  if (op.options.dry_run) {
    out["dryRun"].push_back("All");
  }
  if (op.delete_options) {
    const DeleteOptions& given = *op.delete_options;
    if (!given.precondition_uid.empty()) {
      out.make({"preconditions", "uid"}) = given.precondition_uid;
    }
    if (!given.precondition_version.empty()) {
      out.make({"preconditions", "resourceVersion"}) = given.precondition_version;
    }
    if (given.propagation != Propagation::kDefault) {
      out["propagationPolicy"] = given.propagation == Propagation::kOrphan       ? "Orphan"
                                 : given.propagation == Propagation::kForeground ? "Foreground"
                                                                                 : "Background";
    }
  }
  if (operation == "DELETE") {
    return out;
  }
  if (!op.options.field_manager.empty()) {
    out["fieldManager"] = op.options.field_manager;
  }
  if (op.options.validation != FieldValidation::kWarn) {
    out["fieldValidation"] =
        op.options.validation == FieldValidation::kStrict ? "Strict" : "Ignore";
  }
  return out;
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

PolicyRequest policy_request(const WriteOp& op, std::string_view operation) {
  const ResourceDef& def = *op.kind->def;
  PolicyRequest out;
  out.operation = operation;
  out.resource = {def.group, op.kind->version->name, def.plural};
  out.kind = {def.group, op.kind->version->name, def.kind};
  if (op.subresource == "scale") {
    out.kind = {"autoscaling", "v1", "Scale"};
  }
  out.subresource = op.subresource;
  // The reference takes a Namespace's own name for its namespace.
  const bool is_namespace = def.group.empty() && def.plural == "namespaces";
  out.ns = is_namespace ? op.name : op.ns;
  out.name = op.in_collection ? std::string() : op.name;
  out.user = user_document(op.user);
  out.options = options_of(op, operation);
  out.dry_run = op.options.dry_run;
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

}  // namespace kintsugi::apiserver::internal
