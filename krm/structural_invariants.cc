#include "krm/internal/structural_invariants.h"

#include <re2/re2.h>

#include "krm/internal/definition_parts.h"
#include "krm/internal/regexp_fault.h"

namespace kintsugi::krm {

namespace {

using namespace definition;

enum class Level { kRoot, kItem, kField };

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
    const bool first_pattern = all_of != nullptr && !all_of->items().empty() &&
                               is_int_or_string_pattern(all_of->items()[0]);
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
        for (std::size_t i = 0; i < parts->items().size(); ++i) {
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
      for (std::size_t i = 0; i < parts->items().size(); ++i) {
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

}  // namespace

void check_structural_invariants(const Json& schema, const std::string& path,
                                 std::vector<Cause>& causes) {
  StructureCheck check(causes);
  check.invariants(schema, Level::kRoot, path);
  check.all_complete(schema, path);
}

}  // namespace kintsugi::krm
