#include "controlplane/admission/internal/typed_form.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using krm::Schema;
using krm::SchemaType;

bool is_map(const Schema& schema) { return schema.additional != nullptr; }

bool fits(const Schema& schema, const Json& value) {
  if (value.is_null()) {
    return true;
  }
  switch (schema.type) {
    case SchemaType::kString:
      return value.is_string();
    case SchemaType::kBoolean:
      return value.is_bool();
    case SchemaType::kInteger:
      return value.is_integer();
    case SchemaType::kArray:
      return value.is_array() &&
             std::all_of(value.items().begin(), value.items().end(),
                         [&](const Json& item) { return fits(*schema.items, item); });
    case SchemaType::kObject:
      return value.is_object() &&
             std::all_of(value.members().begin(), value.members().end(),
                         [&](const krm::JsonMember& member) {
                           if (is_map(schema)) {
                             return fits(*schema.additional, member.value);
                           }
                           const krm::SchemaProperty* known = schema.property(member.key);
                           return known == nullptr || fits(*known->schema, member.value);
                         });
    default:
      return true;
  }
}

Json zero_of(const Schema& schema) {
  switch (schema.type) {
    case SchemaType::kString:
      return Json("");
    case SchemaType::kBoolean:
      return Json(false);
    case SchemaType::kInteger:
      return Json(0);
    case SchemaType::kObject:
      return is_map(schema) ? Json() : Json::object();
    default:
      return {};
  }
}

/// What a field that leaves out zero values leaves out. An empty struct behind a pointer stays.
bool is_zero(const Schema& schema, const Json& value) {
  if (value.is_null()) {
    return true;
  }
  const bool is_struct = schema.type == SchemaType::kObject && !is_map(schema);
  return !is_struct &&
         ((value.is_array() || value.is_object()) ? value.size() == 0 : value == zero_of(schema));
}

void form(const Schema& schema, Json& value) {
  if (schema.type == SchemaType::kArray && value.is_array()) {
    for (Json& item : value.edit_items()) {
      if (item.is_null()) {
        item = zero_of(*schema.items);
      }
      form(*schema.items, item);
    }
    return;
  }
  if (schema.type != SchemaType::kObject || is_map(schema) || !value.is_object()) {
    return;
  }
  for (const krm::SchemaProperty& property : schema.properties) {
    Json* member = value.find(property.name);
    if (property.required && (member == nullptr || member->is_null())) {
      member = &value.make({property.name});
      *member = zero_of(*property.schema);
    }
    if (member == nullptr) {
      continue;
    }
    form(*property.schema, *member);
    if (!property.required && is_zero(*property.schema, *member)) {
      value.erase(property.name);
    }
  }
}

}  // namespace

bool to_typed_form(const Schema& schema, Json& value) {
  if (!fits(schema, value)) {
    return false;
  }
  form(schema, value);
  return true;
}

}  // namespace kintsugi::controlplane
