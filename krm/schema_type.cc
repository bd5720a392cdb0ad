#include "krm/schema_type.h"

#include <utility>

namespace kintsugi::krm {
namespace {

constexpr std::pair<SchemaType, std::string_view> kTypeNames[] = {
    {SchemaType::kObject, "object"}, {SchemaType::kArray, "array"},
    {SchemaType::kString, "string"}, {SchemaType::kInteger, "integer"},
    {SchemaType::kNumber, "number"}, {SchemaType::kBoolean, "boolean"},
};

}  // namespace

std::string_view schema_type_name(SchemaType type) noexcept {
  for (const auto& [known, name] : kTypeNames) {
    if (known == type) {
      return name;
    }
  }
  return "";
}

SchemaType schema_type_named(std::string_view name) noexcept {
  for (const auto& [type, known] : kTypeNames) {
    if (known == name) {
      return type;
    }
  }
  return SchemaType::kAny;
}

}  // namespace kintsugi::krm
