#include "krm/internal/typed_walk.h"

namespace kintsugi::krm {

Atom atom_of(const Schema* schema, const Json& value) noexcept {
  const SchemaType type = schema == nullptr ? SchemaType::kAny : schema->type;
  switch (type) {
    case SchemaType::kObject:
      return {Shape::kMap, schema->map_type == MapType::kAtomic};
    case SchemaType::kArray:
      return {Shape::kList, schema->list_type == ListType::kAtomic};
    case SchemaType::kAny:
    case SchemaType::kIntOrString:
      if (value.is_array()) {
        return {Shape::kList, true};
      }
      if (value.is_object() || value.is_null()) {
        return {Shape::kMap, schema != nullptr && schema->map_type == MapType::kAtomic};
      }
      return {};
    default:
      return {};
  }
}

const Schema* member_schema(const Schema* schema, std::string_view key) noexcept {
  if (schema == nullptr) {
    return nullptr;
  }
  if (const SchemaProperty* property = schema->property(key)) {
    return property->schema.get();
  }
  return schema->additional.get();
}

bool declares(const Schema* schema, std::string_view key) noexcept {
  return schema != nullptr && schema->property(key) != nullptr;
}

bool is_untyped(const Schema& schema) noexcept {
  switch (schema.type) {
    case SchemaType::kAny:
    case SchemaType::kIntOrString:
      return true;
    case SchemaType::kString:
      return schema.form == ScalarForm::kQuantity ||
             (!schema.format.empty() && schema.format != "byte");
    default:
      return false;
  }
}

}  // namespace kintsugi::krm
