#include "controlplane/controllers/binding_status.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "apiserver/controllers/controller.h"
#include "base/strings.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/internal/names.h"
#include "krm/go_text.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kInitial = "InitialBindingCompleted";
constexpr std::string_view kUpToDate = "BindingUpToDate";
constexpr std::string_view kExportValid = "APIExportValid";
constexpr std::string_view kInvalidExport =
    "Invalid APIExport. Please contact the APIExport owner to resolve";

void mark_true(Json& binding, std::string_view type) { set_kcp_condition(binding, type, "True"); }

void mark_false(Json& binding, std::string_view type, std::string_view reason,
                std::string_view message, std::string_view severity = "Error") {
  set_kcp_condition(binding, type, "False", severity, reason, message);
}

/// What keeps the binding from being up to date; a first binding that was completed stays so.
void mark_behind(Json& binding, std::string_view reason, std::string_view message) {
  mark_false(binding, kUpToDate, reason, message);
  const Json* initial = apiserver::find_condition(binding, kInitial);
  if (initial != nullptr && initial->text({"status"}) == "False") {
    mark_false(binding, kInitial, reason, message);
  }
}

/// Ready says what InitialBindingCompleted says: other faults come later and leave it served.
void summarize(Json& binding) {
  if (const Json* initial = apiserver::find_condition(binding, kInitial)) {
    const Json copy = *initial;
    set_kcp_condition(binding, "Ready", copy.text({"status"}), copy.text({"severity"}),
                      copy.text({"reason"}), copy.text({"message"}));
  }
  Json* conditions = binding.at({"status", "conditions"});
  if (conditions == nullptr) {
    return;
  }
  Json::Array& items = conditions->edit_items();
  std::stable_sort(items.begin(), items.end(), [](const Json& a, const Json& b) {
    const std::string_view left = a.text({"type"});
    const std::string_view right = b.text({"type"});
    return left != right && (left == "Ready" || (right != "Ready" && left < right));
  });
}

/// As Go prints a map from resources to who has them.
std::string print(const std::map<std::pair<std::string, std::string>, ResourceHolder>& skipped) {
  std::vector<std::string> parts;
  for (const auto& [resource, holder] : skipped) {
    const auto& [group, plural] = resource;
    parts.push_back((group.empty() ? plural : plural + "." + group) + ":{" + holder.binding + " " +
                    (holder.definition ? "true" : "false") + "}");
  }
  return "map[" + join(parts, " ") + "]";
}

std::string print(const std::vector<Cause>& causes) {
  std::vector<std::string> parts;
  for (const Cause& cause : causes) {
    parts.push_back("{" + cause.reason + " " + cause.message + " " + cause.field + "}");
  }
  return "[" + join(parts, " ") + "]";
}

Json* find_bound(Json& binding, const Json& schema) {
  Json* list = binding.at({"status", "boundResources"});
  if (list == nullptr) {
    return nullptr;
  }
  for (Json& entry : list->edit_items()) {
    if (entry.text({"group"}) == schema.text({"spec", "group"}) &&
        entry.text({"resource"}) == schema.text({"spec", "names", "plural"})) {
      return &entry;
    }
  }
  return nullptr;
}

void put_bound(Json& binding, const Json& schema, std::string_view identity) {
  std::set<std::string> versions{stored_version(schema)};
  Json* present = find_bound(binding, schema);
  if (present != nullptr) {
    if (const Json* known = present->find("storageVersions")) {
      for (const Json& version : known->items()) {
        versions.emplace(version.as_string());
      }
    }
  }
  Json list = Json::array();
  for (const std::string& version : versions) {
    list.push_back(version);
  }
  Json entry = Json::object({{"group", schema.text({"spec", "group"})},
                             {"resource", schema.text({"spec", "names", "plural"})},
                             {"schema", Json::object({{"name", schema.text({"metadata", "name"})},
                                                      {"UID", schema.text({"metadata", "uid"})},
                                                      {"identityHash", identity}})},
                             {"storageVersions", std::move(list)}});
  if (present != nullptr) {
    *present = std::move(entry);
  } else {
    binding.make({"status", "boundResources"}).push_back(std::move(entry));
  }
}

/// Several versions need a rule of conversion between them.
bool lacks_conversion(const Json& schema) {
  const Json* versions = schema.at({"spec", "versions"});
  return versions != nullptr && versions->size() > 1 &&
         schema.at({"spec", "conversion"}) == nullptr;
}

/// The schemas of the export in its order; nullopt, with the reason in a condition: one is missing.
std::optional<std::vector<Json>> read_schemas(Json& binding, const Json& api_export,
                                              const std::string& cluster,
                                              const BindingSources& sources) {
  std::vector<Json> schemas;
  const Json* resources = api_export.at({"spec", "resources"});
  for (const Json& resource : resources == nullptr ? Json::Array() : resources->items()) {
    const std::string name(resource.text({"schema"}));
    std::optional<Json> schema = sources.get_schema(cluster, name);
    if (!schema) {
      mark_false(binding, kExportValid, "InternalError",
                 std::string(kInvalidExport) + ": APIResourceSchema " + krm::go_quote(name) +
                     " not found");
      return std::nullopt;
    }
    schemas.push_back(std::move(*schema));
  }
  return schemas;
}

void bind_schemas(Json& binding, const Json& api_export, const ExportRef& ref,
                  const BindingSources& sources, std::vector<Json>& used) {
  std::optional<std::vector<Json>> schemas =
      read_schemas(binding, api_export, ref.cluster, sources);
  if (!schemas) {
    return;
  }
  std::map<std::pair<std::string, std::string>, ResourceHolder> skipped;
  for (Json& schema : *schemas) {
    const std::string_view group = schema.text({"spec", "group"});
    const std::string_view plural = schema.text({"spec", "names", "plural"});
    if (std::optional<ResourceHolder> holder = sources.take(group, plural)) {
      skipped.insert_or_assign({std::string(group), std::string(plural)}, std::move(*holder));
      continue;
    }
    if (const std::string conflict = sources.names_conflict(schema); !conflict.empty()) {
      mark_behind(binding, "NamingConflicts", "Unable to bind APIs: " + conflict);
      return;
    }
    if (lacks_conversion(schema)) {
      mark_false(binding, kExportValid, "InternalError", kInvalidExport);
      return;
    }
    const bool is_valid =
        sources.is_valid != nullptr && sources.is_valid(schema.text({"metadata", "uid"}));
    const std::vector<Cause> faults = is_valid ? std::vector<Cause>() : schema_faults(schema);
    if (!faults.empty()) {
      mark_behind(binding, "APIResourceSchemaInvalid",
                  "APIResourceSchema " + ref.cluster + "|" +
                      std::string(schema.text({"metadata", "name"})) +
                      " is invalid: " + print(faults));
      return;
    }
    put_bound(binding, schema, api_export.text({"status", "identityHash"}));
    used.push_back(std::move(schema));
  }
  mark_true(binding, kExportValid);
  if (!skipped.empty()) {
    mark_behind(binding, "NamingConflicts",
                "Unable to bind APIs because they are bound by other APIBindings or CRDs: " +
                    print(skipped));
    return;
  }
  mark_true(binding, kInitial);
  mark_true(binding, kUpToDate);
  binding.make({"status", "phase"}) = "Bound";
}

}  // namespace

std::vector<Json> settle_binding(Json& binding, std::string_view cluster,
                                 const BindingSources& sources) {
  std::vector<Json> used;
  if (binding.text({"status", "phase"}).empty()) {
    binding.make({"status", "phase"}) = "Binding";
    mark_false(binding, kInitial, "WaitingForEstablished", "Waiting for API(s) to be established",
               "Info");
  }
  if (binding.at({"spec", "reference", "export"}) == nullptr) {
    mark_false(binding, kExportValid, "APIExportInvalidReference", "Missing APIExport reference");
    summarize(binding);
    return used;
  }
  const std::string_view given = binding.text({"spec", "reference", "export", "path"});
  const std::string path(given.empty() ? cluster : given);
  const std::string name(binding.text({"spec", "reference", "export", "name"}));
  // Once decided, it is that one: whoever answers to the path later is another (KK-173), and so is
  // an export that was made anew.
  const std::string_view pinned = binding.text({"status", "apiExportClusterName"});
  const std::optional<ExportRef> ref = sources.find_export(pinned.empty() ? given : pinned, name);
  const std::optional<Json> api_export = ref ? sources.get_export(*ref) : std::nullopt;
  const std::string_view pinned_uid = binding.text({"status", "apiExportUID"});
  const bool is_another =
      api_export && !pinned_uid.empty() && pinned_uid != api_export->text({"metadata", "uid"});
  if (!api_export || is_another) {
    mark_false(binding, kExportValid, "APIExportNotFound",
               "APIExport " + path + "|" + name + " not found");
    summarize(binding);
    return used;
  }
  const Json* claims = api_export->at({"spec", "permissionClaims"});
  if (claims != nullptr && claims->size() > 0) {
    binding.make({"status", "exportPermissionClaims"}) = *claims;
  } else {
    binding["status"].erase("exportPermissionClaims");
  }
  if (api_export->text({"status", "identityHash"}).empty()) {
    mark_false(binding, kExportValid, "MissingIdentityHash",
               "APIExport " + path + "|" + name + " is missing status.identityHash", "Warning");
  } else {
    binding.make({"status", "apiExportClusterName"}) = ref->cluster;
    if (const std::string_view uid = api_export->text({"metadata", "uid"}); !uid.empty()) {
      binding.make({"status", "apiExportUID"}) = uid;
    }
    if (api_export->at({"spec", "maximalPermissionPolicy", kLocalPolicy}) != nullptr) {
      binding.make({"status", "apiExportPolicy"}) = kLocalPolicy;
    } else {
      binding["status"].erase("apiExportPolicy");
    }
    bind_schemas(binding, *api_export, *ref, sources, used);
  }
  settle_claims(binding, *api_export, sources);
  summarize(binding);
  return used;
}

std::string find_names_conflict(const Json& schema, const TakenNames& taken) {
  const Json* names = schema.at({"spec", "names"});
  if (names == nullptr) {
    return {};
  }
  const auto has = [](const std::vector<std::string>& list, std::string_view name) {
    return !name.empty() && std::find(list.begin(), list.end(), name) != list.end();
  };
  const auto text = [](const char* field, std::string_view value) {
    return "spec.names." + std::string(field) + "=" + std::string(value) + " is forbidden";
  };
  for (const char* field : {"plural", "singular"}) {
    if (has(taken.resources, names->text({field}))) {
      return text(field, names->text({field}));
    }
  }
  if (const Json* list = names->find("shortNames")) {
    std::vector<std::string> all;
    bool found = false;
    for (const Json& one : list->items()) {
      all.emplace_back(one.as_string());
      found = found || has(taken.resources, all.back());
    }
    if (found) {
      return text("shortNames", "[" + join(all, " ") + "]");
    }
  }
  for (const char* field : {"kind", "listKind"}) {
    if (has(taken.kinds, names->text({field}))) {
      return text(field, names->text({field}));
    }
  }
  return {};
}

}  // namespace kintsugi::controlplane
