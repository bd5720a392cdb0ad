#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/strings.h"
#include "cel/definition.h"
#include "kinds/common.h"
#include "krm/names.h"
#include "krm/status.h"
#include "krm/structural.h"

namespace kintsugi::kinds {

namespace {

using krm::Json;

constexpr std::string_view kApproval = "api-approved.kubernetes.io";
constexpr std::size_t kMaxSelectableFields = 8;

const Json& none() {
  static const Json& instance = *new Json();
  return instance;
}

const Json& member(const Json& object, std::string_view key) {
  const Json* found = object.find(key);
  return found == nullptr ? none() : *found;
}

bool flag(const Json& object, std::string_view key) { return member(object, key).as_bool(); }

std::string item(const std::string& path, std::size_t index) {
  return path + '[' + std::to_string(index) + ']';
}

void check_label(const std::string& field, const Json& value, std::vector<Cause>& causes) {
  const auto faults = krm::check_dns1035_label(value.as_string());
  if (!value.as_string().empty() && !faults.empty()) {
    causes.push_back(krm::field_invalid(field, value, join(faults, ",")));
  }
}

void check_mixed_case(const std::string& field, const Json& value, std::vector<Cause>& causes) {
  const auto faults = krm::check_dns1035_label(to_lower(value.as_string()));
  if (!value.as_string().empty() && !faults.empty()) {
    causes.push_back(krm::field_invalid(
        field, value, "may have mixed case, but should otherwise match: " + join(faults, ",")));
  }
}

void check_names(const Json& names, const std::string& path, std::vector<Cause>& causes) {
  check_label(path + ".plural", member(names, "plural"), causes);
  check_label(path + ".singular", member(names, "singular"), causes);
  check_mixed_case(path + ".kind", member(names, "kind"), causes);
  check_mixed_case(path + ".listKind", member(names, "listKind"), causes);
  const auto list = [&](std::string_view key) {
    const Json& values = member(names, key);
    for (std::size_t i = 0; i < values.items().size(); ++i) {
      const Json& value = values.items()[i];
      const auto faults = krm::check_dns1035_label(value.as_string());
      if (!faults.empty()) {
        causes.push_back(
            krm::field_invalid(item(path + '.' + std::string(key), i), value, join(faults, ",")));
      }
    }
  };
  list("shortNames");
  const Json& kind = member(names, "kind");
  if (!kind.as_string().empty() && kind == member(names, "listKind")) {
    causes.push_back(
        krm::field_invalid(path + ".listKind", kind, "kind and listKind may not be the same"));
  }
  list("categories");
}

/// The versions as Go's internal structs print them; what they share is kept elsewhere there.
std::string versions_text(const Json& versions, bool shared_schema, bool shared_subresources,
                          bool shared_columns, bool shared_fields) {
  const auto part = [](const Json& version, std::string_view key, bool shared) {
    const Json& value = member(version, key);
    return shared || value.is_null() ? std::string("null") : value.dump();
  };
  if (versions.is_null()) {
    return "null";
  }
  std::string out = "[";
  for (const Json& version : versions.items()) {
    if (out.size() > 1) {
      out += ',';
    }
    out += "{\"Name\":" + member(version, "name").dump();
    out += ",\"Served\":" + Json(flag(version, "served")).dump();
    out += ",\"Storage\":" + Json(flag(version, "storage")).dump();
    out += ",\"Deprecated\":" + Json(flag(version, "deprecated")).dump();
    out += ",\"DeprecationWarning\":" + part(version, "deprecationWarning", false);
    out += ",\"Schema\":" + part(version, "schema", shared_schema);
    out += ",\"Subresources\":" + part(version, "subresources", shared_subresources);
    out += ",\"AdditionalPrinterColumns\":" +
           part(version, "additionalPrinterColumns", shared_columns);
    out += ",\"SelectableFields\":" + part(version, "selectableFields", shared_fields) + "}";
  }
  return out + ']';
}

/// True when every version says the same: the reference then reports at the top of the spec.
bool all_share(const Json& versions, std::string_view key) {
  if (versions.items().empty()) {
    return false;
  }
  const Json& first = member(versions.items()[0], key);
  return !first.is_null() &&
         std::all_of(versions.items().begin(), versions.items().end(),
                     [&](const Json& version) { return member(version, key) == first; });
}

void check_path(const std::string& field, const Json& path, std::vector<std::string_view> below,
                std::string_view detail, std::vector<Cause>& causes) {
  const std::string_view text = path.as_string();
  if (text.empty()) {
    causes.push_back(krm::field_required(field));
  } else if (text.front() != '.') {
    causes.push_back(krm::field_invalid(field, path, "must be a simple json path starting with ."));
  } else if (!below.empty() && std::none_of(below.begin(), below.end(), [&](std::string_view root) {
               return text.starts_with(root);
             })) {
    causes.push_back(krm::field_invalid(field, path, detail));
  }
}

void check_subresources(const Json& subresources, const std::string& path,
                        std::vector<Cause>& causes) {
  const Json& scale = member(subresources, "scale");
  if (!scale.is_object()) {
    return;
  }
  check_path(path + ".scale.specReplicasPath", member(scale, "specReplicasPath"), {".spec."},
             "should be a json path under .spec", causes);
  check_path(path + ".scale.statusReplicasPath", member(scale, "statusReplicasPath"), {".status."},
             "should be a json path under .status", causes);
  if (!member(scale, "labelSelectorPath").as_string().empty()) {
    check_path(path + ".scale.labelSelectorPath", member(scale, "labelSelectorPath"),
               {".spec.", ".status."}, "should be a json path under either .spec or .status",
               causes);
  }
}

void check_columns(const Json& columns, const std::string& path, std::vector<Cause>& causes) {
  static const std::set<std::string_view> kTypes = {"boolean", "date", "integer", "number",
                                                    "string"};
  static const std::set<std::string_view> kFormats = {"byte",  "date",  "date-time", "double",
                                                      "float", "int32", "int64",     "password"};
  constexpr std::string_view kTypeDetail = "must be one of boolean,date,integer,number,string";
  for (std::size_t i = 0; i < columns.items().size(); ++i) {
    const Json& column = columns.items()[i];
    const std::string here = item(path, i);
    if (column.text({"name"}).empty()) {
      causes.push_back(krm::field_required(here + ".name"));
    }
    const Json& type = member(column, "type");
    if (type.as_string().empty()) {
      causes.push_back(krm::field_required(here + ".type", kTypeDetail));
    } else if (kTypes.count(type.as_string()) == 0) {
      causes.push_back(krm::field_invalid(here + ".type", type, kTypeDetail));
    }
    const Json& format = member(column, "format");
    if (!format.as_string().empty() && kFormats.count(format.as_string()) == 0) {
      causes.push_back(krm::field_invalid(
          here + ".format", format,
          "must be one of byte,date,date-time,double,float,int32,int64,password"));
    }
    check_path(here + ".JSONPath", member(column, "jsonPath"), {}, {}, causes);
  }
}

/// The schema that a path of names leads to, or why it leads nowhere.
const Json* schema_at(const Json& schema, std::string_view path, std::string& fault) {
  constexpr std::string_view kDelimiters = ".[]";
  const auto take_token = [&path, kDelimiters]() {
    const std::size_t length = kDelimiters.find(path.front()) != std::string_view::npos
                                   ? 1
                                   : std::min(path.find_first_of(kDelimiters), path.size());
    const std::string_view token = path.substr(0, length);
    path.remove_prefix(length);
    return token;
  };
  const Json* here = &schema;
  while (!path.empty()) {
    if (const std::string_view token = take_token(); token != ".") {
      fault = token == "[" ? "array notation is not allowed"
                           : "expected [ or . but got: " + std::string(token);
      return nullptr;
    }
    if (path.empty()) {
      fault = "unexpected end of JSON path";
      return nullptr;
    }
    const std::string_view name = take_token();
    const Json& properties = member(*here, "properties");
    const Json* next =
        properties.size() != 0 ? properties.find(name) : here->find("additionalProperties");
    if (next == nullptr || !next->is_object()) {
      fault = "does not refer to a valid field";
      return nullptr;
    }
    here = next;
  }
  return here;
}

void check_selectable(const Json& fields, const Json& schema, const std::string& path,
                      std::vector<Cause>& causes) {
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < fields.items().size(); ++i) {
    const Json& given = member(fields.items()[i], "jsonPath");
    const std::string here = item(path, i) + ".jsonPath";
    const std::string_view text = given.as_string();
    if (text.empty()) {
      causes.push_back(krm::field_required(here));
      continue;
    }
    std::string fault;
    const Json* found = schema_at(schema, text, fault);
    if (found == nullptr) {
      causes.push_back(krm::field_invalid(here, given, "is an invalid path: " + fault));
      continue;
    }
    if (text == ".metadata" || text.starts_with(".metadata.")) {
      causes.push_back(krm::field_invalid(here, given, "must not point to fields in metadata"));
    }
    const std::string_view type = found->text({"type"});
    if (type != "string" && type != "boolean" && type != "integer") {
      causes.push_back(krm::field_invalid(
          here, given,
          "must point to a field of type string, boolean or integer. Enum string fields and "
          "strings with formats are allowed."));
    }
    if (!seen.insert(text).second) {
      causes.push_back(krm::field_duplicate(here, given));
    }
  }
  if (seen.size() > kMaxSelectableFields) {
    causes.push_back(krm::field_too_many(path, seen.size(), kMaxSelectableFields));
  }
}

/// The schema that the stored definition has for a version, null when it has none.
const Json* stored_schema(const Json* old, std::string_view version) {
  const Json* versions = old == nullptr ? nullptr : old->at({"spec", "versions"});
  for (std::size_t i = 0; versions != nullptr && i < versions->items().size(); ++i) {
    if (versions->items()[i].text({"name"}) == version) {
      return versions->items()[i].at({"schema", "openAPIV3Schema"});
    }
  }
  return nullptr;
}

/// With a status the schema of the whole object is a frame for those of spec and status.
void check_frame(const Json& schema, const std::string& path, std::vector<Cause>& causes) {
  static const std::set<std::string_view> kAllowed = {"description",
                                                      "type",
                                                      "format",
                                                      "title",
                                                      "maximum",
                                                      "exclusiveMaximum",
                                                      "minimum",
                                                      "exclusiveMinimum",
                                                      "maxLength",
                                                      "minLength",
                                                      "pattern",
                                                      "maxItems",
                                                      "minItems",
                                                      "uniqueItems",
                                                      "multipleOf",
                                                      "required",
                                                      "items",
                                                      "properties",
                                                      "externalDocs",
                                                      "example",
                                                      "x-kubernetes-preserve-unknown-fields",
                                                      "x-kubernetes-validations"};
  constexpr std::string_view kWhen = "if the status subresource is enabled";
  const Json& type = member(schema, "type");
  if (!type.as_string().empty() && type.as_string() != "object") {
    causes.push_back(krm::field_invalid(
        path + ".type", type,
        "only \"object\" is allowed as the type at the root of the schema " + std::string(kWhen)));
    return;
  }
  for (const krm::JsonMember& each : schema.members()) {
    const bool is_zero = each.value.is_null() || each.value == Json(false);
    if (!is_zero && kAllowed.count(each.key) == 0) {
      causes.push_back(
          {"FieldValueInvalid",
           "Invalid value: " + schema.dump() +
               ": only [Description Type Format Title Maximum ExclusiveMaximum Minimum "
               "ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems "
               "MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
               "XValidations] fields are allowed at the root of the schema " +
               std::string(kWhen),
           path});
      return;
    }
  }
}

bool has_status(const Json& version) {
  return member(member(version, "subresources"), "status").is_object();
}

/// The schema of a version, then its rules; these are compiled only when it is structural.
void check_schema(const Json& version, const Json* old, const std::string& path,
                  std::vector<Cause>& causes) {
  const Json& schema = member(member(version, "schema"), "openAPIV3Schema");
  const bool sound =
      krm::validate_structural_schema(schema, path, causes, cel::default_rules(schema));
  cel::check_definition_rules(schema, path, sound, stored_schema(old, version.text({"name"})),
                              causes);
}

/// What all versions share is checked once, as a part of the spec.
struct Shared {
  explicit Shared(const Json& versions)
      : schema(all_share(versions, "schema")),
        subresources(all_share(versions, "subresources")),
        columns(all_share(versions, "additionalPrinterColumns")),
        fields(all_share(versions, "selectableFields")) {
    for (std::size_t i = 0; i < versions.items().size(); ++i) {
      status = status || has_status(versions.items()[i]);
    }
  }
  bool schema, subresources, columns, fields;
  bool status = false;  ///< of any version
};

/// @param shared  check what is shared, else what is not.
void check_contents(const Json& version, const Json* old, const Shared& all, bool shared,
                    const std::string& path, std::vector<Cause>& causes) {
  const Json& schema = member(member(version, "schema"), "openAPIV3Schema");
  if (schema.is_object() && all.schema == shared) {
    const std::string here =
        path + (shared ? ".validation.openAPIV3Schema" : ".schema.openAPIV3Schema");
    if (shared ? all.status : has_status(version)) {
      check_frame(schema, here, causes);
    }
    check_schema(version, old, here, causes);
  }
  if (all.subresources == shared) {
    check_subresources(member(version, "subresources"), path + ".subresources", causes);
  }
  if (all.columns == shared) {
    check_columns(member(version, "additionalPrinterColumns"), path + ".additionalPrinterColumns",
                  causes);
  }
  const Json& fields = member(version, "selectableFields");
  if (all.fields == shared && fields.size() != 0 && !(schema.is_object() && all.schema == shared)) {
    causes.push_back(krm::field_invalid(
        path + ".selectableFields", Json(""),
        shared ? "may only be set when validations.schema is included"
               : "may only be set when `version.schema.openAPIV3Schema` is not included"));
  } else if (all.fields == shared) {
    check_selectable(fields, schema, path + ".selectableFields", causes);
  }
}

void check_deprecation(const Json& version, const std::string& path, std::vector<Cause>& causes) {
  const Json& warning = member(version, "deprecationWarning");
  if (warning.is_null()) {
    return;
  }
  const std::string field = path + ".deprecationWarning";
  if (!flag(version, "deprecated")) {
    causes.push_back(krm::field_invalid(field, warning, "can only be set for deprecated versions"));
  } else if (warning.as_string().empty()) {
    causes.push_back(krm::field_invalid(field, warning, "must not be an empty string"));
  } else if (warning.as_string().size() > 256) {
    causes.push_back(krm::field_invalid(field, warning, "must be <= 256 characters long"));
  }
}

void check_versions(const Json& versions, const Json* old, const Shared& all,
                    std::vector<Cause>& causes) {
  for (std::size_t i = 0; i < versions.items().size(); ++i) {
    if (!member(member(versions.items()[i], "schema"), "openAPIV3Schema").is_object()) {
      causes.push_back(krm::field_required(item("spec.versions", i) + ".schema.openAPIV3Schema"));
    }
  }
  std::set<std::string_view> seen;
  int storage = 0;
  bool unique = true;
  std::string first_fault;
  for (std::size_t i = 0; i < versions.items().size(); ++i) {
    const Json& version = versions.items()[i];
    const std::string here = item("spec.versions", i);
    storage += flag(version, "storage") ? 1 : 0;
    unique = seen.insert(version.text({"name"})).second && unique;
    const std::string fault = join(krm::check_dns1035_label(version.text({"name"})), ",");
    if (!fault.empty()) {
      causes.push_back(krm::field_invalid(here + ".name", Json(version.text({"name"})), fault));
    }
    if (i == 0) {
      first_fault = fault;
    }
    check_deprecation(version, here, causes);
    check_contents(version, old, all, false, here, causes);
  }
  const auto invalid_versions = [&](std::string_view detail) {
    causes.push_back(
        {"FieldValueInvalid",
         "Invalid value: " +
             versions_text(versions, all.schema, all.subresources, all.columns, all.fields) + ": " +
             std::string(detail),
         "spec.versions"});
  };
  if (!unique) {
    invalid_versions("must contain unique version names");
  }
  if (storage != 1) {
    invalid_versions("must have exactly one version marked as storage version");
  }
  if (!first_fault.empty() && !versions.items()[0].text({"name"}).empty()) {
    causes.push_back(
        krm::field_invalid("spec.version", Json(versions.items()[0].text({"name"})), first_fault));
  }
}

void check_stored_versions(const Json& crd, std::vector<Cause>& causes) {
  const Json* stored = crd.at({"status", "storedVersions"});
  const std::string path = "status.storedVersions";
  if (stored == nullptr || stored->size() == 0) {
    causes.push_back(krm::field_invalid(path, Json(), "must have at least one stored version"));
    return;
  }
  std::map<std::string_view, std::size_t> left;
  for (std::size_t i = 0; i < stored->items().size(); ++i) {
    left[stored->items()[i].as_string()] = i;
  }
  for (const Json& version : member(member(crd, "spec"), "versions").items()) {
    const std::string_view name = version.text({"name"});
    // As the reference counts: a second version of this name is not the stored one.
    const bool is_stored = left.erase(name) != 0;
    if (flag(version, "storage") && !is_stored) {
      causes.push_back(
          krm::field_invalid(path, *stored, "must have the storage version " + std::string(name)));
    }
  }
  for (const auto& [version, index] : left) {
    const std::string name(version);
    causes.push_back(krm::field_invalid(
        item(path, index), Json(name),
        "missing from spec.versions; " + name +
            " was previously a storage version, and must remain in spec.versions until a "
            "storage migration ensures no data remains persisted in " +
            name + " and removes " + name + " from status.storedVersions"));
  }
}

void check_approval(const Json& crd, const Json* old, std::vector<Cause>& causes) {
  const std::string_view group = crd.text({"spec", "group"});
  const auto in = [&](std::string_view domain) {
    return group == domain || group.ends_with("." + std::string(domain));
  };
  if (!in("k8s.io") && !in("kubernetes.io")) {
    return;
  }
  const std::string_view value = crd.text({"metadata", "annotations", kApproval});
  if (old != nullptr && value == old->text({"metadata", "annotations", kApproval})) {
    return;
  }
  const std::string field = "metadata.annotations[" + std::string(kApproval) + "]";
  if (value.empty()) {
    causes.push_back(krm::field_required(
        field,
        "protected groups must have approval annotation \"api-approved.kubernetes.io\", see "
        "https://github.com/kubernetes/enhancements/pull/1111"));
  } else if (!value.starts_with("unapproved") && !value.starts_with("https://") &&
             !value.starts_with("http://")) {
    causes.push_back(krm::field_invalid(
        field, Json(value),
        "protected groups must have approval annotation \"api-approved.kubernetes.io\" with "
        "either a URL or a reason starting with \"unapproved\", see "
        "https://github.com/kubernetes/enhancements/pull/1111"));
  }
}

bool is_established(const Json& crd) {
  if (const Json* conditions = crd.at({"status", "conditions"})) {
    for (const Json& condition : conditions->items()) {
      if (condition.text({"type"}) == "Established") {
        return condition.text({"status"}) == "True";
      }
    }
  }
  return false;
}

/// Groups of Kubernetes from before groups were domains: who serves none of them himself may have
/// them defined (KK-186, KK-223).
bool is_undotted_group(std::string_view group) {
  constexpr std::string_view kGroups[] = {"apps", "autoscaling", "batch", "extensions", "policy"};
  return std::find(std::begin(kGroups), std::end(kGroups), group) != std::end(kGroups);
}

void check_immutable(const Json& crd, const Json& old, std::vector<Cause>& causes) {
  const auto check = [&](std::initializer_list<std::string_view> path, const char* field) {
    if (crd.text(path) != old.text(path)) {
      causes.push_back(krm::field_invalid(field, Json(crd.text(path)), "field is immutable"));
    }
  };
  if (is_established(old)) {
    check({"spec", "scope"}, "spec.scope");
    check({"spec", "names", "kind"}, "spec.names.kind");
  }
  check({"spec", "group"}, "spec.group");
  check({"spec", "names", "plural"}, "spec.names.plural");
}

}  // namespace

void validate_definition(const Json& crd, const Json* old, std::vector<Cause>& causes) {
  const Json& spec = member(crd, "spec");
  const Json& names = member(spec, "names");
  const std::string group(spec.text({"group"}));
  const std::string wanted = std::string(names.text({"plural"})) + "." + group;
  const std::string_view name = crd.text({"metadata", "name"});
  if (old == nullptr && !name.empty() && name != wanted) {
    causes.push_back(krm::field_invalid("metadata.name", Json(name),
                                        "must be spec.names.plural+\".\"+spec.group"));
  }
  const auto group_faults = krm::check_dns1123_subdomain(group);
  if (group.empty()) {
    // A kcp leaves it to the name check, other than a kube-apiserver.
  } else if (!group_faults.empty()) {
    causes.push_back(krm::field_invalid("spec.group", Json(group), join(group_faults, ",")));
  } else if (group.find('.') == std::string::npos && !is_undotted_group(group)) {
    causes.push_back(
        krm::field_invalid("spec.group", Json(group), "should be a domain with at least one dot"));
  }
  const Json& scope = member(spec, "scope");
  if (scope.as_string().empty()) {
    causes.push_back(krm::field_required("spec.scope"));
  } else if (scope.as_string() != "Cluster" && scope.as_string() != "Namespaced") {
    causes.push_back(krm::field_not_supported("spec.scope", scope, {"Cluster", "Namespaced"}));
  }
  const Json& versions = member(spec, "versions");
  const Shared shared(versions);
  check_versions(versions, old, shared, causes);
  for (std::string_view key : {"plural", "singular", "kind", "listKind"}) {
    if (names.text({key}).empty()) {
      causes.push_back(krm::field_required("spec.names." + std::string(key)));
    }
  }
  check_names(names, "spec.names", causes);
  if (!versions.items().empty()) {
    check_contents(versions.items()[0], old, shared, true, "spec", causes);
  }
  validate_conversion(member(spec, "conversion"), causes);
  if (old != nullptr) {
    check_immutable(crd, *old, causes);
  }
  if (crd.at({"status", "acceptedNames"}) != nullptr) {
    check_names(*crd.at({"status", "acceptedNames"}), "status.acceptedNames", causes);
  }
  check_stored_versions(crd, causes);
  check_approval(crd, old, causes);
  if (flag(spec, "preserveUnknownFields")) {
    causes.push_back(krm::field_invalid(
        "spec.preserveUnknownFields", Json(true),
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
        "spec.versions[*].schema instead"));
  }
}

}  // namespace kintsugi::kinds
