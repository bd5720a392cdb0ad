#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "krm/internal/definition_parts.h"
#include "krm/internal/structural_check.h"
#include "krm/internal/structural_invariants.h"
#include "krm/status.h"
#include "krm/structural.h"

namespace kintsugi::krm {

namespace {

using namespace definition;

constexpr std::array<std::string_view, 6> kTypes = {"array",  "boolean", "integer",
                                                    "number", "object",  "string"};

/// What any schema of a definition must obey, structural or not.
class SchemaCheck {
 public:
  explicit SchemaCheck(std::vector<Cause>& causes) : causes_(causes) {}

  /// Where a part stands: inside apiVersion, kind or metadata of a resource, and why it must not
  /// have a default.
  struct Inside {
    bool metadata = false;
    std::string no_default;
  };

  void visit(const Json& schema, const std::string& path, bool root, const Inside& inside,
             int depth = 0) {
    if (depth > kMaxDepth) {
      return;
    }
    standard(schema, path, inside);
    const Json* additional = object_at(schema, "additionalProperties");
    const Json* given = schema.find("additionalProperties");
    if (given != nullptr && !given->is_null() && !properties_of(schema).empty() &&
        (additional != nullptr || !given->as_bool())) {
      causes_.push_back(field_forbidden(path + ".additionalProperties",
                                        "additionalProperties and properties are mutual "
                                        "exclusive"));
    }
    if (additional != nullptr) {
      Inside below = inside;
      if (inside.metadata) {
        below.no_default = "inside additionalProperties applying to object metadata";
      }
      visit(*additional, path + ".additionalProperties", false, below, depth + 1);
    }
    for (const JsonMember& member : properties_of(schema)) {
      Inside below = inside;
      if ((root || is_true(schema, "x-kubernetes-embedded-resource")) &&
          (member.key == "metadata" || member.key == "kind" || member.key == "apiVersion")) {
        below.metadata = true;
        below.no_default = root ? "in top-level " + member.key : inside.no_default;
      }
      visit(member.value, property_path(path, member.key), false, below, depth + 1);
    }
    for (std::string_view key : {"allOf", "oneOf", "anyOf"}) {
      if (const Json* parts = schema.find(key)) {
        for (std::size_t i = 0; i < parts->items().size(); ++i) {
          visit(parts->items()[i], at(path, key, i), false, inside, depth + 1);
        }
      }
    }
    if (const Json* negated = object_at(schema, "not")) {
      visit(*negated, path + ".not", false, inside, depth + 1);
    }
    if (const Json* items = object_at(schema, "items")) {
      visit(*items, path + ".items", false, inside, depth + 1);
    }
    map_type(schema, path);
    list_type(schema, path);
  }

 private:
  void forbid(const std::string& path, std::string_view detail) {
    causes_.push_back(field_forbidden(path, detail));
  }

  void standard(const Json& schema, const std::string& path, const Inside& inside) {
    const std::string_view type = schema.text({"type"});
    if (!type.empty() && std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
      causes_.push_back(field_not_supported(
          path + ".type", Json(type), std::vector<std::string>(kTypes.begin(), kTypes.end())));
    }
    if (!inside.no_default.empty() && is_set(schema, "default")) {
      forbid(path + ".default", "must not be set " + inside.no_default);
    }
    if (inside.metadata && is_true(schema, "x-kubernetes-embedded-resource")) {
      forbid(path + ".x-kubernetes-embedded-resource", "must not be used inside of resource meta");
    }
    for (std::string_view key :
         {"id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"}) {
      const bool present = key == "additionalItems" || key == "dependencies" || key == "$ref"
                               ? is_set(schema, key)
                               : is_filled(schema, key);
      if (present) {
        forbid(path + '.' + std::string(key), std::string(key) + " is not supported");
      }
    }
    if (type == "null") {
      forbid(path + ".type", "type cannot be set to null, use nullable as an alternative");
    }
    const Json* items = schema.find("items");
    if (items != nullptr && items->is_array() && items->size() != 0) {
      forbid(path + ".items", "items must be a schema object and not an array");
    }
    if (is_true(schema, "uniqueItems")) {
      forbid(path + ".uniqueItems",
             "uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
    }
    const Json* preserve = schema.find("x-kubernetes-preserve-unknown-fields");
    if (preserve != nullptr && preserve->is_bool() && !preserve->as_bool()) {
      causes_.push_back(field_invalid(path + ".x-kubernetes-preserve-unknown-fields", Json(false),
                                      "must be true or undefined"));
    }
  }

  void wrong_type(const Json& schema, const std::string& path, std::string_view detail) {
    const std::string_view type = schema.text({"type"});
    causes_.push_back(type.empty() ? field_required(path + ".type", detail)
                                   : field_invalid(path + ".type", Json(type), detail));
  }

  void map_type(const Json& schema, const std::string& path) {
    if (!is_set(schema, "x-kubernetes-map-type")) {
      return;
    }
    const std::string_view map_type = schema.text({"x-kubernetes-map-type"});
    if (schema.text({"type"}) != "object") {
      wrong_type(schema, path, "must be object if x-kubernetes-map-type is specified");
    }
    if (map_type != "atomic" && map_type != "granular") {
      causes_.push_back(field_not_supported(path + ".x-kubernetes-map-type", Json(map_type),
                                            {"atomic", "granular"}));
    }
  }

  void list_type(const Json& schema, const std::string& path) {
    const std::string here = path + ".x-kubernetes-list-type";
    const bool given = is_set(schema, "x-kubernetes-list-type");
    const std::string_view type = schema.text({"x-kubernetes-list-type"});
    const Json* items = object_at(schema, "items");
    if (given && schema.text({"type"}) != "array") {
      wrong_type(schema, path, "must be array if x-kubernetes-list-type is specified");
    } else if (type == "set" && items != nullptr) {
      constexpr std::string_view kDetail =
          "must be atomic as item of a list with x-kubernetes-list-type=set";
      const Json* inner = items->find("x-kubernetes-list-type");
      if (items->text({"type"}) == "array" && inner != nullptr && inner->as_string() != "atomic") {
        causes_.push_back(field_invalid(path + ".items.x-kubernetes-list-type", *inner, kDetail));
      } else if (items->text({"type"}) == "object" &&
                 items->text({"x-kubernetes-map-type"}) != "atomic") {
        causes_.push_back(field_invalid(path + ".items.x-kubernetes-map-type",
                                        inner == nullptr ? Json() : *inner, kDetail));
      }
    }
    if (given && type != "atomic" && type != "set" && type != "map") {
      causes_.push_back(field_not_supported(here, Json(type), {"atomic", "set", "map"}));
    }
    const Json* keys = schema.find("x-kubernetes-list-map-keys");
    const bool has_keys = keys != nullptr && keys->size() != 0;
    if (has_keys && type != "map") {
      constexpr std::string_view kDetail = "must be map if x-kubernetes-list-map-keys is non-empty";
      causes_.push_back(given ? field_invalid(here, Json(type), kDetail)
                              : field_required(here, kDetail));
    }
    if (type == "map") {
      list_map(schema, path, has_keys ? keys : nullptr, items);
    }
    if ((type == "map" || type == "set") && items != nullptr && is_true(*items, "nullable")) {
      forbid(path + ".items.nullable",
             "cannot be nullable when x-kubernetes-list-type is " + std::string(type));
    }
  }

  void list_map(const Json& schema, const std::string& path, const Json* keys, const Json* items) {
    const std::string here = path + ".x-kubernetes-list-map-keys";
    if (keys == nullptr) {
      causes_.push_back(field_required(here, "must not be empty if x-kubernetes-list-type is map"));
    }
    if (items == nullptr) {
      if (!is_set(schema, "items")) {
        causes_.push_back(
            field_required(path + ".items", "must have a schema if x-kubernetes-list-type is map"));
      }
      return;
    }
    const bool of_objects = items->text({"type"}) == "object";
    if (!of_objects) {
      causes_.push_back(field_invalid(path + ".items.type", Json(items->text({"type"})),
                                      "must be object if parent array's x-kubernetes-list-type "
                                      "is map"));
    }
    if (keys == nullptr) {
      return;
    }
    const Json* properties = object_at(*items, "properties");
    std::set<std::string_view> seen;
    bool known = true;
    for (const Json& key : keys->items()) {
      if (!seen.insert(key.as_string()).second && of_objects) {
        causes_.push_back(field_invalid(here, *keys, "must not contain duplicate entries"));
        break;
      }
    }
    const Json* required = items->find("required");
    for (std::string_view key : seen) {
      const Json* property = properties == nullptr ? nullptr : properties->find(key);
      if (property == nullptr) {
        known = !of_objects;
        continue;
      }
      const bool is_required =
          required != nullptr && std::find(required->items().begin(), required->items().end(),
                                           Json(key)) != required->items().end();
      const std::string property_at = property_path(path + ".items", key);
      if (!is_required && !is_set(*property, "default")) {
        causes_.push_back(field_required(property_at + ".default",
                                         "this property is in x-kubernetes-list-map-keys, so it "
                                         "must have a default or be a required property"));
      }
      const std::string_view key_type = property->text({"type"});
      if (of_objects && (key_type == "object" || key_type == "array")) {
        causes_.push_back(
            field_invalid(property_at + ".type", Json(key_type),
                          "must be a scalar type if parent array's x-kubernetes-list-type is map"));
      }
      if (is_true(*property, "nullable")) {
        forbid(property_at + ".nullable",
               "this property is in x-kubernetes-list-map-keys, so it cannot be nullable");
      }
    }
    if (!known) {
      causes_.push_back(field_invalid(here, *keys, "entries must all be names of item properties"));
    }
  }

  std::vector<Cause>& causes_;
};

/// Schemas that cannot be read as structural at all get only the general complaints.
bool is_readable(const Json& schema, int depth) {
  if (depth > kMaxDepth || is_set(schema, "$ref") || is_set(schema, "dependencies") ||
      is_filled(schema, "definitions") || is_filled(schema, "patternProperties") ||
      is_set(schema, "additionalItems") || is_true(schema, "uniqueItems")) {
    return false;
  }
  const Json* items = schema.find("items");
  if (items != nullptr &&
      (items->is_array() ? items->size() != 0 : !is_readable(*items, depth + 1))) {
    return false;
  }
  const Json* additional = object_at(schema, "additionalProperties");
  if (additional != nullptr && !is_readable(*additional, depth + 1)) {
    return false;
  }
  return std::all_of(
      properties_of(schema).begin(), properties_of(schema).end(),
      [&](const JsonMember& member) { return is_readable(member.value, depth + 1); });
}

}  // namespace

bool validate_structural_schema(const Json& schema, std::string_view path,
                                std::vector<Cause>& causes, const DefaultRules& rules) {
  const std::string here(path);
  if (is_true(schema, "nullable")) {
    causes.push_back(field_forbidden(here + ".nullable", "nullable cannot be true at the root"));
  }
  std::vector<Cause> found;
  const bool readable = is_readable(schema, 0);
  if (readable) {
    check_structural_invariants(schema, here, found);
    std::sort(found.begin(), found.end(), [](const Cause& a, const Cause& b) {
      return a.field + ": " + a.message < b.field + ": " + b.message;
    });
    if (found.empty()) {
      check_schema_defaults(schema, here, rules, found);
    }
  }
  const bool structural = readable && found.empty();
  SchemaCheck(found).visit(schema, here, true, {});
  for (Cause& cause : found) {
    if (std::find(causes.begin(), causes.end(), cause) == causes.end()) {
      causes.push_back(std::move(cause));
    }
  }
  return structural;
}

}  // namespace kintsugi::krm
