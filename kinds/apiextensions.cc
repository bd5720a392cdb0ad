#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/strings.h"
#include "base/time.h"
#include "kinds/common.h"
#include "krm/finalizers.h"
#include "krm/go_text.h"
#include "krm/strict.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::kinds {

namespace {

using krm::Json;

/// Name of the version marked for storage.
std::optional<std::string> storage_version(const Json& crd) {
  if (const Json* versions = crd.at({"spec", "versions"})) {
    for (const Json& version : versions->items()) {
      if (const Json* flag = version.find("storage"); flag != nullptr && flag->as_bool()) {
        return std::string(version.text({"name"}));
      }
    }
  }
  return std::nullopt;
}

void add_stored_version(Json& crd) {
  const std::optional<std::string> name = storage_version(crd);
  if (!name) {
    return;
  }
  Json& stored = crd.make({"status", "storedVersions"});
  const auto& present = stored.items();
  if (std::find(present.begin(), present.end(), Json(*name)) == present.end()) {
    stored.push_back(Json(*name));
  }
}

void set_defaults(Json& crd) {
  Json& names = crd.make({"spec", "names"});
  const std::string kind(names.text({"kind"}));
  if (names.text({"singular"}).empty() && !kind.empty()) {
    names["singular"] = Json(to_lower(kind));
  }
  if (names.text({"listKind"}).empty() && !kind.empty()) {
    names["listKind"] = Json(kind + "List");
  }
  Json& spec = crd["spec"];
  if (!is_set(spec, "conversion")) {
    spec["conversion"] = Json::object({{"strategy", Json("None")}});
  }
  if (Json* service = crd.at({"spec", "conversion", "webhook", "clientConfig", "service"});
      service != nullptr && service->is_object() && !is_set(*service, "port")) {
    (*service)["port"] = Json(443);
  }
}

void set_condition(Json& crd, std::string_view type, std::string_view status,
                   std::string_view reason, std::string_view message) {
  Json& conditions = crd.make({"status", "conditions"});
  Json made = Json::object({{"lastTransitionTime", Json(rfc3339(unix_seconds()))},
                            {"message", Json(message)},
                            {"reason", Json(reason)},
                            {"status", Json(status)},
                            {"type", Json(type)}});
  for (Json& condition : conditions.edit_items()) {
    if (condition.text({"type"}) == type) {
      if (condition.text({"status"}) == status) {
        made["lastTransitionTime"] = Json(condition.text({"lastTransitionTime"}));
      }
      condition = std::move(made);
      return;
    }
  }
  conditions.push_back(std::move(made));
}

void mark_deleted(Json& crd) {
  Json& finalizers = crd.make({"metadata", "finalizers"});
  const auto& present = finalizers.items();
  if (std::find(present.begin(), present.end(), Json(krm::kDefinitionFinalizer)) == present.end()) {
    finalizers.push_back(Json(krm::kDefinitionFinalizer));
    set_condition(crd, "Terminating", "True", "InstanceDeletionPending",
                  "CustomResourceDefinition marked for deletion; CustomResource deletion will "
                  "begin soon");
  }
}

/// Formats of texts that nobody checks.
void find_formats(const Json& schema, std::set<std::string>& found, int depth) {
  constexpr std::string_view kKnown[] = {
      "bsonobjectid", "uri",      "email",    "hostname",     "ipv4",       "ipv6",     "cidr",
      "mac",          "uuid",     "uuid3",    "uuid4",        "uuid5",      "isbn",     "isbn10",
      "isbn13",       "ssn",      "byte",     "creditcard",   "hexcolor",   "rgbcolor", "date",
      "password",     "datetime", "duration", "k8sshortname", "k8slongname"};
  constexpr int kMaxDepth = 100;
  if (depth > kMaxDepth) {
    return;
  }
  if (schema.is_array()) {
    for (const Json& item : schema.items()) {
      find_formats(item, found, depth + 1);
    }
    return;
  }
  std::string format(schema.text({"format"}));
  std::erase(format, '-');
  const std::string_view type = schema.text({"type"});
  const bool known = type == "integer"  ? format == "int32" || format == "int64"
                     : type == "number" ? format == "float" || format == "double"
                                        : std::find(std::begin(kKnown), std::end(kKnown), format) !=
                                              std::end(kKnown);
  if ((type == "string" || type == "integer" || type == "number") && !format.empty() && !known) {
    found.emplace(schema.text({"format"}));
  }
  for (const char* part : {"items", "additionalProperties", "not", "allOf", "anyOf", "oneOf"}) {
    if (const Json* inner = schema.find(part)) {
      find_formats(*inner, found, depth + 1);
    }
  }
  if (const Json* properties = schema.find("properties")) {
    for (const krm::JsonMember& member : properties->members()) {
      find_formats(member.value, found, depth + 1);
    }
  }
}

void warn_of_formats(const Json& crd, std::vector<std::string>& warnings) {
  std::set<std::string> found;
  if (const Json* versions = crd.at({"spec", "versions"})) {
    for (const Json& version : versions->items()) {
      if (const Json* schema = version.at({"schema", "openAPIV3Schema"})) {
        find_formats(*schema, found, 0);
      }
    }
  }
  for (const std::string& format : found) {
    warnings.push_back("unrecognized format " + krm::go_quote(format));
  }
}

void prepare(const apiserver::WriteContext& context, Json& crd, const Json* old) {
  if (context.verb == "delete") {
    mark_deleted(crd);
    return;
  }
  if (old == nullptr) {
    crd.erase("status");
    add_stored_version(crd);
  } else if (context.subresource == "status") {
    copy_member(crd, *old, "spec");
    if (const Json* stored = crd.at({"status", "storedVersions"});
        stored == nullptr || stored->size() == 0) {
      add_stored_version(crd);
    }
  } else if (context.subresource.empty()) {
    copy_member(crd, *old, "status");
    add_stored_version(crd);
  }
  // What the typed form always writes; the types were checked when the body was decoded.
  static_cast<void>(krm::decode_typed(
      *krm::builtin_schema("apiextensions.k8s.io/v1", "CustomResourceDefinition"), crd));
}

}  // namespace

std::vector<apiserver::ResourcePtr> apiextensions_kinds() {
  apiserver::ResourceDef def = make_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition",
                                         "customresourcedefinitions");
  def.short_names = {"crd", "crds"};
  def.categories = {"api-extensions"};
  def.namespaced = false;
  def.unconditional_update = false;
  def.generation = true;
  def.versions[0].status = true;
  def.status_metadata = true;
  def.general_metadata = true;     // its own finalizer has no slash
  def.null_empty_table = true;     // its first row is made when there is an object
  def.hashed_version = "v1beta1";  // stored as before there was v1
  def.versions[0].columns = {created_at_column()};
  set_defaults_and_prepare(def.hooks, set_defaults, prepare);
  def.hooks.validate = [](const apiserver::WriteContext& context, const Json& crd, const Json* old,
                          std::vector<Cause>& causes) {
    if (context.subresource.empty()) {
      validate_definition(crd, old, causes);
      if (causes.empty()) {
        warn_of_formats(crd, context.warnings);
      }
    }
  };
  return {std::make_shared<const apiserver::ResourceDef>(std::move(def))};
}

}  // namespace kintsugi::kinds
