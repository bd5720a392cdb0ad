#pragma once

#include <string>
#include <string_view>

#include "krm/json.h"

/// How checks of a definition read its openAPIV3Schema, which may be any JSON, and name its parts.
namespace kintsugi::krm::definition {

inline constexpr int kMaxDepth = 400;

inline bool is_set(const Json& schema, std::string_view key) {
  const Json* value = schema.find(key);
  return value != nullptr && !value->is_null();
}

inline bool is_true(const Json& schema, std::string_view key) {
  const Json* value = schema.find(key);
  return value != nullptr && value->as_bool();
}

/// A list, a map or a text that is not empty.
inline bool is_filled(const Json& schema, std::string_view key) {
  const Json* value = schema.find(key);
  return value != nullptr && (value->size() != 0 || !value->as_string().empty());
}

inline const Json* object_at(const Json& schema, std::string_view key) {
  const Json* value = schema.find(key);
  return value != nullptr && value->is_object() ? value : nullptr;
}

inline const Json::Object& properties_of(const Json& schema) {
  static const Json::Object& none = *new Json::Object();
  const Json* properties = object_at(schema, "properties");
  return properties == nullptr ? none : properties->members();
}

inline std::string at(const std::string& path, std::string_view key, std::size_t index) {
  return path + '.' + std::string(key) + '[' + std::to_string(index) + ']';
}

inline std::string property_path(const std::string& path, std::string_view name) {
  return path + ".properties[" + std::string(name) + ']';
}

}  // namespace kintsugi::krm::definition
