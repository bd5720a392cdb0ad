#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "krm/regexp_fault.h"
#include "krm/status.h"
#include "krm/structural.h"
#include "krm/structural_check.h"

namespace kintsugi::krm {

namespace {

constexpr int kMaxDepth = 400;
constexpr std::array<std::string_view, 6> kTypes = {"array",  "boolean", "integer",
                                                    "number", "object",  "string"};

enum class Level { kRoot, kItem, kField };

bool is_set(const Json& schema, std::string_view key) {
  const Json* value = schema.find(key);
  return value != nullptr && !value->is_null();
}

bool is_true(const Json& schema, std::string_view key) {
  const Json* value = schema.find(key);
  return value != nullptr && value->as_bool();
}

/// A list, a map or a text that is not empty.
bool is_filled(const Json& schema, std::string_view key) {
  const Json* value = schema.find(key);
  return value != nullptr && (value->size() != 0 || !value->as_string().empty());
}

const Json* object_at(const Json& schema, std::string_view key) {
  const Json* value = schema.find(key);
  return value != nullptr && value->is_object() ? value : nullptr;
}

const Json::Object& properties_of(const Json& schema) {
  static const Json::Object& none = *new Json::Object();
  const Json* properties = object_at(schema, "properties");
  return properties == nullptr ? none : properties->members();
}

std::string at(const std::string& path, std::string_view key, std::size_t index) {
  return path + '.' + std::string(key) + '[' + std::to_string(index) + ']';
}

std::string property_path(const std::string& path, std::string_view name) {
  return path + ".properties[" + std::string(name) + ']';
}

bool is_int_or_string_pattern(const Json& schema) {
  static const Json& pattern = *new Json(Json::array(
      {Json::object({{"type", Json("integer")}}), Json::object({{"type", Json("string")}})}));
  const Json* any_of = schema.find("anyOf");
  return any_of != nullptr && *any_of == pattern;
}

/// The rules that make a schema structural.
class StructureCheck {
 public:
  explicit StructureCheck(std::vector<Cause>& causes) : causes_(causes) {}

  void invariants(const Json& schema, Level level, const std::string& path, int depth = 0) {
    if (depth > kMaxDepth) {
      return;
    }
    const std::string_view type = schema.text({"type"});
    const Json* items = object_at(schema, "items");
    if (type == "array" && items == nullptr) {
      causes_.push_back(field_required(path + ".items", "must be specified"));
    }
    if (items != nullptr) {
      invariants(*items, Level::kItem, path + ".items", depth + 1);
    }
    for (const JsonMember& member : properties_of(schema)) {
      invariants(member.value, Level::kField, property_path(path, member.key), depth + 1);
    }
    if (is_set(schema, "additionalProperties")) {
      if (level == Level::kRoot) {
        causes_.push_back(
            field_forbidden(path + ".additionalProperties", "must not be used at the root"));
      }
      if (const Json* additional = object_at(schema, "additionalProperties")) {
        invariants(*additional, Level::kField, path + ".additionalProperties", depth + 1);
      }
    }
    extensions(schema, path);
    const Json* all_of = schema.find("allOf");
    const bool first_pattern =
        all_of != nullptr && all_of->size() != 0 && is_int_or_string_pattern(all_of->items()[0]);
    validations(schema, is_int_or_string_pattern(schema), first_pattern, path, depth);
    types(schema, level, path);
    meta_fields(schema, level, path);
  }

  void completeness(const Json& validation, const Json* structure, const std::string& s_path,
                    const std::string& v_path, int depth = 0) {
    if (depth > kMaxDepth) {
      return;
    }
    if (structure == nullptr) {
      causes_.push_back(field_required(s_path, "because it is defined in " + v_path));
      return;
    }
    for (std::string_view key : {"allOf", "anyOf", "oneOf"}) {
      if (const Json* parts = validation.find(key)) {
        for (std::size_t i = 0; i < parts->size(); ++i) {
          nested_completeness(parts->items()[i], structure, s_path, at(v_path, key, i), depth + 1);
        }
      }
    }
    if (const Json* negated = object_at(validation, "not")) {
      nested_completeness(*negated, structure, s_path, v_path + ".not", depth + 1);
    }
  }

  /// completeness() of every part of a structure.
  void all_complete(const Json& schema, const std::string& path, int depth = 0) {
    if (depth > kMaxDepth) {
      return;
    }
    completeness(schema, &schema, path, path, depth);
    for (const JsonMember& member : properties_of(schema)) {
      all_complete(member.value, property_path(path, member.key), depth + 1);
    }
    for (std::string_view key : {"items", "additionalProperties"}) {
      if (const Json* part = object_at(schema, key)) {
        all_complete(*part, path + '.' + std::string(key), depth + 1);
      }
    }
  }

 private:
  void nested_completeness(const Json& validation, const Json* structure, const std::string& s_path,
                           const std::string& v_path, int depth) {
    if (structure == nullptr) {
      causes_.push_back(field_required(s_path, "because it is defined in " + v_path));
      return;
    }
    completeness(validation, structure, s_path, v_path, depth);
    if (const Json* items = object_at(validation, "items")) {
      nested_completeness(*items, object_at(*structure, "items"), s_path + ".items",
                          v_path + ".items", depth + 1);
    }
    const Json* declared = object_at(*structure, "properties");
    for (const JsonMember& member : properties_of(validation)) {
      nested_completeness(member.value, declared == nullptr ? nullptr : declared->find(member.key),
                          property_path(s_path, member.key), property_path(v_path, member.key),
                          depth + 1);
    }
  }

  void extensions(const Json& schema, const std::string& path) {
    if (!is_true(schema, "x-kubernetes-int-or-string")) {
      return;
    }
    for (std::string_view key :
         {"x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"}) {
      if (is_true(schema, key)) {
        causes_.push_back(field_invalid(path + '.' + std::string(key), Json(true),
                                        "must be false if x-kubernetes-int-or-string is true"));
      }
    }
  }

  void types(const Json& schema, Level level, const std::string& path) {
    const std::string_view type = schema.text({"type"});
    const bool embedded = is_true(schema, "x-kubernetes-embedded-resource");
    if (embedded && type != "object") {
      constexpr std::string_view kDetail =
          "must be object if x-kubernetes-embedded-resource is true";
      causes_.push_back(type.empty() ? field_required(path + ".type", kDetail)
                                     : field_invalid(path + ".type", Json(type), kDetail));
    } else if (type.empty() && !is_true(schema, "x-kubernetes-int-or-string") &&
               !is_true(schema, "x-kubernetes-preserve-unknown-fields")) {
      causes_.push_back(field_required(
          path + ".type", level == Level::kRoot   ? "must not be empty at the root"
                          : level == Level::kItem ? "must not be empty for specified array items"
                                                  : "must not be empty for specified object "
                                                    "fields"));
    }
    if (embedded && is_set(schema, "additionalProperties")) {
      causes_.push_back(field_forbidden(path + ".additionalProperties",
                                        "must not be used if x-kubernetes-embedded-resource is "
                                        "set"));
    }
    if (level == Level::kRoot && !type.empty() && type != "object") {
      causes_.push_back(field_invalid(path + ".type", Json(type), "must be object at the root"));
    }
    if (embedded && !is_true(schema, "x-kubernetes-preserve-unknown-fields") &&
        properties_of(schema).empty()) {
      causes_.push_back(
          field_required(path + ".properties",
                         "must not be empty if x-kubernetes-embedded-resource is true without "
                         "x-kubernetes-preserve-unknown-fields"));
    }
  }

  void meta_fields(const Json& schema, Level level, const std::string& path) {
    if (level != Level::kRoot && !is_true(schema, "x-kubernetes-embedded-resource")) {
      return;
    }
    const Json* properties = object_at(schema, "properties");
    if (properties == nullptr) {
      return;
    }
    for (std::string_view key : {"kind", "apiVersion"}) {
      const Json* property = properties->find(key);
      if (property != nullptr && property->text({"type"}) != "string") {
        causes_.push_back(field_invalid(property_path(path, key) + ".type",
                                        Json(property->text({"type"})), "must be string"));
      }
    }
    const Json* metadata = properties->find("metadata");
    if (metadata == nullptr) {
      return;
    }
    const std::string here = property_path(path, "metadata");
    if (metadata->text({"type"}) != "object") {
      causes_.push_back(
          field_invalid(here + ".type", Json(metadata->text({"type"})), "must be object"));
    }
    if (level != Level::kRoot) {
      return;
    }
    bool plain = true;
    for (const JsonMember& member : metadata->members()) {
      plain = plain && (member.key == "type" || member.key == "default" ||
                        member.key == "properties" || member.value.is_null());
    }
    for (const JsonMember& member : properties_of(*metadata)) {
      plain = plain && (member.key == "name" || member.key == "generateName");
    }
    if (!plain) {
      causes_.push_back(field_forbidden(here,
                                        "must not specify anything other than name and "
                                        "generateName, but metadata is implicitly specified"));
    }
  }

  void validations(const Json& schema, bool skip_any_of, bool skip_first_all_of,
                   const std::string& path, int depth) {
    for (std::string_view key : {"anyOf", "allOf", "oneOf"}) {
      const Json* parts = schema.find(key);
      if (parts == nullptr || (key == "anyOf" && skip_any_of)) {
        continue;
      }
      for (std::size_t i = 0; i < parts->size(); ++i) {
        nested(parts->items()[i], key == "allOf" && i == 0 && skip_first_all_of, at(path, key, i),
               depth + 1);
      }
    }
    if (const Json* negated = object_at(schema, "not")) {
      nested(*negated, false, path + ".not", depth + 1);
    }
    if (is_filled(schema, "pattern")) {
      const std::string_view pattern = schema.text({"pattern"});
      re2::RE2::Options options;
      options.set_log_errors(false);
      const re2::RE2 compiled(re2::StringPiece(pattern.data(), pattern.size()), options);
      if (!compiled.ok()) {
        causes_.push_back(
            field_invalid(path + ".pattern", Json(pattern),
                          "must be a valid regular expression, but isn't: error parsing regexp: " +
                              regexp_fault(compiled)));
      }
    }
  }

  void nested(const Json& schema, bool skip_any_of, const std::string& path, int depth) {
    if (depth > kMaxDepth) {
      return;
    }
    validations(schema, skip_any_of, false, path, depth);
    if (const Json* items = object_at(schema, "items")) {
      nested(*items, false, path + ".items", depth + 1);
    }
    for (const JsonMember& member : properties_of(schema)) {
      nested(member.value, false, property_path(path, member.key), depth + 1);
    }
    const auto forbid = [&](std::string_view key, bool present, std::string_view what) {
      if (present) {
        causes_.push_back(field_forbidden(path + '.' + std::string(key),
                                          std::string(what) + " to be structural"));
      }
    };
    forbid("type", is_filled(schema, "type"), "must be empty");
    forbid("additionalProperties", is_set(schema, "additionalProperties"), "must be undefined");
    forbid("default", is_set(schema, "default"), "must be undefined");
    forbid("title", is_filled(schema, "title"), "must be empty");
    forbid("description", is_filled(schema, "description"), "must be empty");
    for (std::string_view key : {"nullable", "x-kubernetes-preserve-unknown-fields",
                                 "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"}) {
      forbid(key, is_true(schema, key), "must be false");
    }
    forbid("x-kubernetes-list-map-keys", is_filled(schema, "x-kubernetes-list-map-keys"),
           "must be empty");
    forbid("x-kubernetes-list-type", is_set(schema, "x-kubernetes-list-type"), "must be undefined");
    forbid("x-kubernetes-map-type", is_set(schema, "x-kubernetes-map-type"), "must be undefined");
    forbid("x-kubernetes-validations", is_filled(schema, "x-kubernetes-validations"),
           "must be empty");
    const Json* properties = object_at(schema, "properties");
    if (properties != nullptr && properties->find("metadata") != nullptr) {
      causes_.push_back(field_forbidden(property_path(path, "metadata"),
                                        "must not be specified in a nested context"));
    }
  }

  std::vector<Cause>& causes_;
};

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
        for (std::size_t i = 0; i < parts->size(); ++i) {
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
    StructureCheck check(found);
    check.invariants(schema, Level::kRoot, here);
    check.all_complete(schema, here);
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
