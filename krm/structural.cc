#include "krm/structural.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "krm/schema_type.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::krm {

namespace {

constexpr int kMaxDepth = 500;

std::optional<double> number(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  if (value == nullptr || !value->is_number()) {
    return std::nullopt;
  }
  return value->as_double();
}

std::optional<std::int64_t> count(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  if (value == nullptr || !value->is_integer()) {
    return std::nullopt;
  }
  return value->as_integer();
}

bool flag(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value != nullptr && value->as_bool();
}

SchemaPtr read(const Json& json, bool whole_object, int depth);

std::vector<SchemaPtr> read_all(const Json& json, std::string_view key, int depth) {
  std::vector<SchemaPtr> out;
  if (const Json* list = json.find(key)) {
    for (const Json& each : list->items()) {
      out.push_back(read(each, false, depth + 1));
    }
  }
  return out;
}

SchemaPtr string_schema() {
  static const SchemaPtr& schema = *new SchemaPtr([] {
    auto made = std::make_shared<Schema>();
    made->type = SchemaType::kString;
    return made;
  }());
  return schema;
}

void set_property(Schema& schema, std::string_view name, SchemaPtr value) {
  for (SchemaProperty& property : schema.properties) {
    if (property.name == name) {
      property.schema = std::move(value);
      return;
    }
  }
  SchemaProperty made;
  made.name = name;
  made.schema = std::move(value);
  const auto place = std::lower_bound(
      schema.properties.begin(), schema.properties.end(), name,
      [](const SchemaProperty& each, std::string_view key) { return each.name < key; });
  schema.properties.insert(place, std::move(made));
}

/// ObjectMeta, with what the definition says about name and generateName.
SchemaPtr metadata_schema(const Schema* declared) {
  if (declared == nullptr) {
    return object_meta_schema();
  }
  std::shared_ptr<Schema> made;
  for (std::string_view name : {"name", "generateName"}) {
    if (const SchemaProperty* property = declared->property(name)) {
      if (made == nullptr) {
        made = std::make_shared<Schema>(*object_meta_schema());
      }
      set_property(*made, name, property->schema);
    }
  }
  if (made == nullptr) {
    return object_meta_schema();
  }
  return made;
}

void add_object_fields(Schema& schema) {
  const SchemaProperty* declared = schema.property("metadata");
  SchemaPtr metadata = metadata_schema(declared == nullptr ? nullptr : declared->schema.get());
  if (schema.property("apiVersion") == nullptr) {
    set_property(schema, "apiVersion", string_schema());
  }
  if (schema.property("kind") == nullptr) {
    set_property(schema, "kind", string_schema());
  }
  set_property(schema, "metadata", std::move(metadata));
}

void read_rules(const Json& json, Schema& out) {
  const Json* rules = json.find("x-kubernetes-validations");
  if (rules == nullptr) {
    return;
  }
  for (const Json& each : rules->items()) {
    Schema::Rule rule;
    rule.rule = each.text({"rule"});
    rule.message = each.text({"message"});
    rule.message_expression = each.text({"messageExpression"});
    rule.reason = each.text({"reason"});
    rule.field_path = each.text({"fieldPath"});
    rule.optional_old_self = flag(each, "optionalOldSelf");
    out.rules.push_back(std::move(rule));
  }
}

void read_object(const Json& json, Schema& out, int depth) {
  if (const Json* properties = json.find("properties")) {
    for (const JsonMember& member : properties->members()) {
      SchemaProperty property;
      property.name = member.key;
      property.schema = read(member.value, false, depth + 1);
      out.properties.push_back(std::move(property));
    }
  }
  if (const Json* additional = json.find("additionalProperties")) {
    if (additional->is_object()) {
      out.additional = read(*additional, false, depth + 1);
    } else if (additional->as_bool()) {
      out.additional = std::make_shared<Schema>();
    }
  }
  if (const Json* required = json.find("required")) {
    for (const Json& name : required->items()) {
      bool known = false;
      for (SchemaProperty& property : out.properties) {
        if (property.name == name.as_string()) {
          property.required = known = true;
        }
      }
      if (!known) {
        out.required_names.emplace_back(name.as_string());
      }
    }
  }
  if (json.text({"x-kubernetes-map-type"}) == "atomic") {
    out.map_type = MapType::kAtomic;
  }
}

void read_array(const Json& json, Schema& out, int depth) {
  const Json* items = json.find("items");
  if (items != nullptr && items->is_object()) {
    out.items = read(*items, false, depth + 1);
  }
  const std::string_view list_type = json.text({"x-kubernetes-list-type"});
  if (list_type == "set") {
    out.list_type = ListType::kSet;
  } else if (list_type == "map") {
    out.list_type = ListType::kMap;
    if (const Json* keys = json.find("x-kubernetes-list-map-keys")) {
      for (const Json& key : keys->items()) {
        out.list_map_keys.emplace_back(key.as_string());
      }
    }
  }
}

SchemaPtr read(const Json& json, bool whole_object, int depth) {
  auto out = std::make_shared<Schema>();
  if (depth > kMaxDepth) {
    return out;
  }
  out->type = schema_type_named(json.text({"type"}));
  if (flag(json, "x-kubernetes-int-or-string")) {
    out->type = SchemaType::kIntOrString;
  }
  out->format = json.text({"format"});
  out->description = json.text({"description"});
  out->nullable = flag(json, "nullable");
  out->preserve_unknown = flag(json, "x-kubernetes-preserve-unknown-fields");
  out->embedded_resource = flag(json, "x-kubernetes-embedded-resource");
  read_object(json, *out, depth);
  read_array(json, *out, depth);
  if (const Json* value = json.find("default"); value != nullptr && !value->is_null()) {
    out->default_value = *value;
  }
  if (const Json* values = json.find("enum")) {
    out->enum_values = values->items();
  }
  out->minimum = number(json, "minimum");
  out->maximum = number(json, "maximum");
  out->multiple_of = number(json, "multipleOf");
  out->exclusive_minimum = flag(json, "exclusiveMinimum");
  out->exclusive_maximum = flag(json, "exclusiveMaximum");
  out->min_length = count(json, "minLength");
  out->max_length = count(json, "maxLength");
  out->min_items = count(json, "minItems");
  out->max_items = count(json, "maxItems");
  out->min_properties = count(json, "minProperties");
  out->max_properties = count(json, "maxProperties");
  out->pattern = json.text({"pattern"});
  out->all_of = read_all(json, "allOf", depth);
  out->any_of = read_all(json, "anyOf", depth);
  out->one_of = read_all(json, "oneOf", depth);
  if (const Json* negated = json.find("not"); negated != nullptr && negated->is_object()) {
    out->negated = read(*negated, false, depth + 1);
  }
  read_rules(json, *out);
  if (whole_object || out->embedded_resource) {
    add_object_fields(*out);
  }
  return out;
}

bool any_rules(const Schema& schema, int depth) {
  if (!schema.rules.empty()) {
    return true;
  }
  if (depth > kMaxDepth || !schema.type_name.empty()) {
    return false;
  }
  const auto in = [&](const SchemaPtr& part) { return part && any_rules(*part, depth + 1); };
  const auto in_any = [&](const std::vector<SchemaPtr>& parts) {
    return std::any_of(parts.begin(), parts.end(), in);
  };
  for (const SchemaProperty& property : schema.properties) {
    if (in(property.schema)) {
      return true;
    }
  }
  return in(schema.items) || in(schema.additional) || in_any(schema.all_of);
}

}  // namespace

SchemaPtr structural_schema(const Json& schema, bool whole_object) {
  return read(schema, whole_object, 0);
}

bool has_rules(const Schema& schema) { return any_rules(schema, 0); }

}  // namespace kintsugi::krm
