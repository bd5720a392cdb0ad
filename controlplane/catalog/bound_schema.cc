#include "controlplane/catalog/bound_schema.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/digest.h"
#include "kinds/builtin_kinds.h"
#include "kinds/common.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kApproval = "api-approved.kubernetes.io";
/// Definitions cannot extend the core group, schemas can.
constexpr std::string_view kCoreStandIn = "core.internal";

/// KK-185: `<prefix>.<plural>.<group or core>`.
void check_schema_name(const Json& schema, std::vector<Cause>& causes) {
  const std::string_view name = schema.text({"metadata", "name"});
  const std::string_view group = schema.text({"spec", "group"});
  const std::string ending = "." + std::string(schema.text({"spec", "names", "plural"})) + "." +
                             std::string(group.empty() ? "core" : group);
  if (!name.ends_with(ending)) {
    causes.push_back(krm::field_invalid("metadata.name", Json(name), "must end in " + ending));
    return;
  }
  const std::string_view prefix = name.substr(0, name.size() - ending.size());
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_inner = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-'; };
  if (prefix.empty() || !is_letter(prefix.front()) || prefix.back() == '-' ||
      !std::all_of(prefix.begin(), prefix.end(), is_inner)) {
    causes.push_back(
        krm::field_invalid("metadata.name", Json(name),
                           "must match ^[a-z]([-a-z0-9]*[a-z0-9])?$ in front of " + ending));
  }
}

/// What is said of the definition is said of fields that the schema has, too.
bool is_of_schema(const Cause& cause) {
  return !cause.field.starts_with("metadata.name") && !cause.field.starts_with("status") &&
         cause.field != "spec.version";
}

/// Faults of the definition with the names that were given: none is made up (KK-188).
std::vector<Cause> faults_as_given(const Json& schema) {
  Json definition = definition_of(schema);
  if (const Json* names = schema.at({"spec", "names"})) {
    definition.make({"spec", "names"}) = *names;
  }
  std::vector<Cause> causes;
  kinds::validate_definition(definition, nullptr, causes);
  return causes;
}

/// Where definitions say something of their only version, and where it stands.
constexpr std::pair<std::string_view, std::string_view> kShared[] = {
    {"spec.validation", "spec.versions[0].schema"},
    {"spec.additionalPrinterColumns", "spec.versions[0].additionalPrinterColumns"},
    {"spec.selectableFields", "spec.versions[0].selectableFields"},
    {"spec.subresources", "spec.versions[0].subresources"}};

}  // namespace

Json definition_of(const Json& schema) {
  Json out = Json::object(
      {{"apiVersion", "apiextensions.k8s.io/v1"}, {"kind", "CustomResourceDefinition"}});
  const Json* spec = schema.find("spec");
  if (spec == nullptr) {
    return out;
  }
  const std::string_view given = spec->text({"group"});
  const std::string group(given.empty() ? kCoreStandIn : given);
  out.make({"metadata", "name"}) = std::string(spec->text({"names", "plural"})) + "." + group;
  const std::string_view approval = schema.text({"metadata", "annotations", kApproval});
  if (!approval.empty()) {
    out.make({"metadata", "annotations", kApproval}) = approval;
  }
  Json& to = out["spec"];
  to["group"] = group;
  for (const char* member : {"names", "scope", "conversion"}) {
    if (const Json* value = spec->find(member)) {
      to[member] = *value;
    }
  }
  if (to.find("conversion") == nullptr) {
    to.make({"conversion", "strategy"}) = "None";
  }
  if (to.text({"names", "singular"}).empty()) {
    std::string singular(to.text({"names", "kind"}));
    std::transform(singular.begin(), singular.end(), singular.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    to.make({"names", "singular"}) = singular;
  }
  if (to.text({"names", "listKind"}).empty()) {
    to.make({"names", "listKind"}) = std::string(to.text({"names", "kind"})) + "List";
  }
  Json& versions = to["versions"] = Json::array();
  if (const Json* list = spec->find("versions")) {
    for (const Json& version : list->items()) {
      Json made = version;
      Json content = version.find("schema") == nullptr ? Json() : *version.find("schema");
      made.erase("schema");
      made.make({"schema", "openAPIV3Schema"}) = std::move(content);
      versions.push_back(std::move(made));
    }
  }
  out.make({"status", "storedVersions"}) = Json::array({Json(stored_version(schema))});
  return out;
}

std::vector<Cause> schema_faults(const Json& schema) {
  std::vector<Cause> causes;
  kinds::validate_definition(definition_of(schema), nullptr, causes);
  return causes;
}

std::vector<Cause> new_schema_faults(const Json& schema) {
  std::vector<Cause> causes;
  check_schema_name(schema, causes);
  const bool is_core = schema.text({"spec", "group"}) == "core";
  if (is_core) {
    causes.push_back(
        krm::field_invalid("spec.group", Json("core"), "must be empty string for the core group"));
  }
  for (Cause& cause : faults_as_given(schema)) {
    if (!is_of_schema(cause) || (is_core && cause.field == "spec.group")) {
      continue;
    }
    // What versions have in common stands beside them in a definition.
    for (const auto& [shared, own] : kShared) {
      if (cause.field.starts_with(shared)) {
        cause.field.replace(0, shared.size(), own);
      }
    }
    causes.push_back(std::move(cause));
  }
  return causes;
}

apiserver::ResourcePtr bound_resource(const Json& schema, std::string_view identity, bool leaving) {
  const apiserver::ResourcePtr made = kinds::resource_from_crd(definition_of(schema));
  if (made == nullptr) {
    return nullptr;
  }
  auto def = std::make_shared<apiserver::ResourceDef>(*made);
  def->group = schema.text({"spec", "group"});
  def->identity = identity;
  def->terminating = leaving;
  if (schema.text({"spec", "nameValidation"}) == "PathSegmentName") {
    def->name_rule = apiserver::NameRule::kPathSegment;
  }
  return def;
}

std::string stored_version(const Json& schema) {
  if (const Json* versions = schema.at({"spec", "versions"})) {
    for (const Json& version : versions->items()) {
      const Json* storage = version.find("storage");
      if (storage != nullptr && storage->as_bool()) {
        return std::string(version.text({"name"}));
      }
    }
  }
  return {};
}

std::string base62_sha224(std::string_view text) {
  static constexpr std::string_view kDigits =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  auto number = sha224(text);  // big endian
  std::string out;
  while (std::any_of(number.begin(), number.end(), [](unsigned char byte) { return byte != 0; })) {
    unsigned rest = 0;
    for (unsigned char& byte : number) {
      rest = rest << 8 | byte;
      byte = static_cast<unsigned char>(rest / 62);
      rest %= 62;
    }
    out += kDigits[rest];
  }
  std::reverse(out.begin(), out.end());
  return out.empty() ? "0" : out;
}

}  // namespace kintsugi::controlplane
