#include "apiserver/internal/openapi_schemas.h"

#include <optional>
#include <utility>

#include "apiserver/internal/openapi_names.h"
#include "apiserver/internal/scale.h"
#include "krm/schema_type.h"
#include "krm/types/builtin_texts.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;
using krm::ScalarForm;
using krm::Schema;
using krm::SchemaType;

constexpr std::string_view kApiVersionText =
    "API group and version in which the object is written here, like apps/v1; of the core group "
    "the version alone. The server shows one object in every version that it serves.";
constexpr std::string_view kKindText =
    "What the object is, like ConfigMap. With apiVersion it says by which schema the object is "
    "read. It cannot be changed.";
constexpr std::string_view kMetadataText =
    "Name, namespace and labels, and what the server keeps of every object.";
constexpr std::string_view kItemsText = "The objects of the list.";

Json reference(std::string_view component) {
  return Json::object({{"$ref", "#/components/schemas/" + std::string(component)}});
}

Json wrapped(std::string_view component) {
  return Json::object({{"allOf", Json::array({reference(component)})}});
}

bool is_plain_scalar(const Schema& schema) {
  return schema.form == ScalarForm::kPlain &&
         (schema.type == SchemaType::kString || schema.type == SchemaType::kInteger ||
          schema.type == SchemaType::kNumber || schema.type == SchemaType::kBoolean);
}

/// What Go has where nothing was given; null for what has no such value in documents.
Json zero_of(const Schema& schema) {
  if (!schema.type_name.empty()) {
    return Json::object();
  }
  if (!is_plain_scalar(schema)) {
    return {};
  }
  if (schema.type == SchemaType::kString) {
    return "";
  }
  return schema.type == SchemaType::kBoolean ? Json(false) : Json(0);
}

/// Elements of builtin lists and maps show their zero value.
Json with_zero(Json element, const Schema& schema) {
  if (Json zero = zero_of(schema); !zero.is_null()) {
    element["default"] = std::move(zero);
  }
  return element;
}

template <class Number>
void put(Json& out, std::string_view key, const std::optional<Number>& value) {
  if (value) {
    out[key] = *value;
  }
}

void put_flag(Json& out, std::string_view key, bool value) {
  if (value) {
    out[key] = true;
  }
}

void put_text(Json& out, std::string_view key, const std::string& value) {
  if (!value.empty()) {
    out[key] = value;
  }
}

void write_values(const Schema& schema, Json& out) {
  put_text(out, "format", schema.format);
  put_text(out, "description", schema.description);
  put_flag(out, "nullable", schema.nullable);
  put(out, "default", schema.default_value);
  if (!schema.enum_values.empty()) {
    out["enum"] = Json(schema.enum_values);
  }
  put(out, "minimum", schema.minimum);
  put(out, "maximum", schema.maximum);
  put(out, "multipleOf", schema.multiple_of);
  put_flag(out, "exclusiveMinimum", schema.exclusive_minimum);
  put_flag(out, "exclusiveMaximum", schema.exclusive_maximum);
  put(out, "minLength", schema.min_length);
  put(out, "maxLength", schema.max_length);
  put(out, "minItems", schema.min_items);
  put(out, "maxItems", schema.max_items);
  put(out, "minProperties", schema.min_properties);
  put(out, "maxProperties", schema.max_properties);
  put_text(out, "pattern", schema.pattern);
}

void write_rules(const Schema& schema, Json& out) {
  for (const Schema::Rule& rule : schema.rules) {
    Json shown = Json::object({{"rule", rule.rule}});
    put_text(shown, "message", rule.message);
    put_text(shown, "messageExpression", rule.message_expression);
    put_text(shown, "reason", rule.reason);
    put_text(shown, "fieldPath", rule.field_path);
    put_flag(shown, "optionalOldSelf", rule.optional_old_self);
    out["x-kubernetes-validations"].push_back(std::move(shown));
  }
}

Json group_version_kind(std::string_view group, std::string_view version, std::string_view kind) {
  return Json::object({{"group", group}, {"kind", kind}, {"version", version}});
}

/// Texts for the fields that all kinds share, where the schema has none.
void describe_common_fields(Json& kind) {
  constexpr std::pair<std::string_view, std::string_view> kTexts[] = {
      {"apiVersion", kApiVersionText}, {"kind", kKindText}, {"metadata", kMetadataText}};
  for (const auto& [name, text] : kTexts) {
    Json* property = kind.at({"properties", name});
    if (property != nullptr && property->find("description") == nullptr) {
      (*property)["description"] = text;
    }
  }
}

/// Texts of a builtin type and of its fields.
void describe(const Schema& schema, Json& out) {
  if (schema.type_name.empty()) {
    return;
  }
  const auto put_description = [](Json& target, std::string_view text) {
    if (!text.empty() && target.find("description") == nullptr) {
      target["description"] = text;
    }
  };
  put_description(out, krm::builtin_text(schema.type_name, {}));
  for (const krm::SchemaProperty& property : schema.properties) {
    if (Json* shown = out.at({"properties", property.name})) {
      put_description(*shown, krm::builtin_text(schema.type_name, property.name));
    }
  }
}

}  // namespace

Json OpenApiSchemas::own_kind(std::string_view kind) const {
  return Json::array({group_version_kind(group_, version_, kind)});
}

std::string OpenApiSchemas::component(const ResourceDef& def, std::string_view kind) const {
  return def.builtin ? builtin_component(group_, version_, kind)
                     : custom_component(group_, version_, kind);
}

Json OpenApiSchemas::add_kind(const ResourceDef& def, const ResourceVersion& version) {
  const std::string name = component(def, def.kind);
  if (schemas_.find(name) == nullptr) {
    schemas_[name] = Json::object();  // types may refer to themselves
    Json made =
        version.schema != nullptr
            ? body(*version.schema, def.builtin)
            : Json::object({{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}});
    describe_common_fields(made);
    made["x-kubernetes-group-version-kind"] = own_kind(def.kind);
    if (!version.selectable_fields.empty() && !def.builtin) {
      for (const std::string& path : version.selectable_fields) {
        made["x-kubernetes-selectable-fields"].push_back(
            Json::object({{"fieldPath", path.substr(path.starts_with('.') ? 1 : 0)}}));
      }
    }
    schemas_[name] = std::move(made);
  }
  return reference(name);
}

Json OpenApiSchemas::add_list(const ResourceDef& def, const ResourceVersion& version) {
  const std::string kind = def.list_kind.empty() ? def.kind + "List" : def.list_kind;
  const std::string name = component(def, kind);
  if (schemas_.find(name) == nullptr) {
    Json item = add_kind(def, version);
    if (def.builtin) {
      item = Json::object({{"allOf", Json::array({std::move(item)})}, {"default", Json::object()}});
    }
    const Json meta = add_type("ListMeta");
    Json list = Json::object({{"type", "object"}, {"required", Json::array({"items"})}});
    list["description"] = kind + " is a list of " + def.kind;
    list["x-kubernetes-group-version-kind"] = own_kind(kind);
    Json& properties = list["properties"];
    properties["apiVersion"]["type"] = "string";
    properties["kind"]["type"] = "string";
    properties["metadata"]["allOf"] = Json::array({meta});
    properties["items"] =
        Json::object({{"type", "array"}, {"description", kItemsText}, {"items", std::move(item)}});
    describe_common_fields(list);
    schemas_[name] = std::move(list);
  }
  return reference(name);
}

Json OpenApiSchemas::add_type(std::string_view type_name) {
  if (type_name == "Patch") {
    leaf("Patch",
         Json::object({{"type", "object"}, {"description", krm::builtin_text("Patch", {})}}));
    return reference(meta_component("Patch"));
  }
  const krm::SchemaPtr schema = krm::builtin_type(type_name);
  if (schema == nullptr) {
    return Json::object({{"type", "object"}});
  }
  const std::string name = named(*schema);
  Json& made = schemas_[name];
  if (type_name == "DeleteOptions") {
    made["x-kubernetes-group-version-kind"] =
        Json::array({group_version_kind("", "v1", type_name)});
    if (!group_.empty() || version_ != "v1") {
      made["x-kubernetes-group-version-kind"].push_back(
          group_version_kind(group_, version_, type_name));
    }
  } else if (type_name == "Status") {
    made["x-kubernetes-group-version-kind"] =
        Json::array({group_version_kind("", "v1", type_name)});
  } else if (type_name == "Scale") {
    made["x-kubernetes-group-version-kind"] =
        Json::array({group_version_kind(kScaleGroup, "v1", type_name)});
  }
  return reference(name);
}

std::string OpenApiSchemas::named(const Schema& schema) {
  std::string name = builtin_component(group_, version_, schema.type_name);
  if (schemas_.find(name) == nullptr) {
    schemas_[name] = Json::object();  // types may refer to themselves
    // Definitions may narrow the names in metadata: the shared type is the plain one.
    Json made = body(schema.type_name == "ObjectMeta" ? *krm::object_meta_schema() : schema, true);
    describe_common_fields(made);
    schemas_[name] = std::move(made);
  }
  return name;
}

Json OpenApiSchemas::leaf(std::string_view type_name, Json type_body) {
  const std::string name = builtin_component(group_, version_, type_name);
  if (schemas_.find(name) == nullptr) {
    schemas_[name] = std::move(type_body);
  }
  return wrapped(name);
}

Json OpenApiSchemas::write(const Schema& schema, bool builtin) {
  if (!schema.type_name.empty()) {
    return wrapped(named(schema));
  }
  if (builtin) {
    switch (schema.form) {
      case ScalarForm::kTime:
        return leaf("Time", Json::object({{"type", "string"},
                                          {"format", "date-time"},
                                          {"description", krm::builtin_text("Time", {})}}));
      case ScalarForm::kMicroTime:
        return leaf("MicroTime",
                    Json::object({{"type", "string"},
                                  {"format", "date-time"},
                                  {"description", krm::builtin_text("MicroTime", {})}}));
      case ScalarForm::kQuantity:
        return leaf("Quantity",
                    Json::object({{"description", "A number with a suffix, like 500m or 2Gi."},
                                  {"oneOf", Json::array({Json::object({{"type", "string"}}),
                                                         Json::object({{"type", "number"}})})}}));
      case ScalarForm::kRawObject:
        return group_ == "apiextensions.k8s.io" ? Json::object()
                                                : Json::object({{"type", "object"}});
      case ScalarForm::kSchemaOrArray:
        return leaf("JSONSchemaPropsOrArray",
                    Json::object({{"description", "A JSONSchemaProps or an array of them."}}));
      case ScalarForm::kSchemaOrBool:
        return leaf("JSONSchemaPropsOrBool",
                    Json::object({{"description", "A JSONSchemaProps or a boolean."}}));
      case ScalarForm::kSchemaOrNames:
        return leaf("JSONSchemaPropsOrStringArray",
                    Json::object({{"description", "A JSONSchemaProps or an array of strings."}}));
      default:
        break;
    }
  }
  return body(schema, builtin);
}

Json OpenApiSchemas::body(const Schema& schema, bool builtin) {
  Json out = Json::object();
  if (const std::string_view type = krm::schema_type_name(schema.type); !type.empty()) {
    out["type"] = type;
  }
  write_values(schema, out);
  write_properties(schema, builtin, out);
  write_list(schema, builtin, out);
  constexpr std::pair<std::string_view, std::vector<krm::SchemaPtr> Schema::*> kParts[] = {
      {"allOf", &Schema::all_of}, {"anyOf", &Schema::any_of}, {"oneOf", &Schema::one_of}};
  for (const auto& [key, parts] : kParts) {
    for (const krm::SchemaPtr& part : schema.*parts) {
      out[key].push_back(write(*part, builtin));
    }
  }
  if (schema.negated != nullptr) {
    out["not"] = write(*schema.negated, builtin);
  }
  if (schema.type == SchemaType::kIntOrString) {
    out["x-kubernetes-int-or-string"] = true;
    if (schema.any_of.empty()) {
      out["anyOf"] =
          Json::array({Json::object({{"type", "integer"}}), Json::object({{"type", "string"}})});
    }
  }
  put_flag(out, "x-kubernetes-preserve-unknown-fields", schema.preserve_unknown);
  put_flag(out, "x-kubernetes-embedded-resource", schema.embedded_resource);
  write_rules(schema, out);
  if (builtin) {
    describe(schema, out);
  }
  return out;
}

void OpenApiSchemas::write_properties(const Schema& schema, bool builtin, Json& out) {
  Json required = Json::array();
  for (const krm::SchemaProperty& property : schema.properties) {
    const Schema& type = *property.schema;
    Json shown = write(type, builtin);
    if (builtin && property.always && !property.keep_zero) {
      shown = with_zero(std::move(shown), type);
    } else if (builtin && !property.keep_zero && !type.type_name.empty()) {
      shown["default"] = Json::object();
    }
    out["properties"][property.name] = std::move(shown);
    const bool always = builtin && property.always && !property.keep_zero &&
                        is_plain_scalar(type) && !property.name.starts_with("reporting");
    if (property.required || always) {
      required.push_back(property.name);
    }
  }
  for (const std::string& name : schema.required_names) {
    required.push_back(name);
  }
  if (required.size() != 0) {
    out["required"] = std::move(required);
  }
  if (schema.additional != nullptr) {
    Json value = write(*schema.additional, builtin);
    out["additionalProperties"] =
        builtin ? with_zero(std::move(value), *schema.additional) : std::move(value);
  }
  if (schema.map_type == krm::MapType::kAtomic) {
    out["x-kubernetes-map-type"] = "atomic";
  }
}

void OpenApiSchemas::write_list(const Schema& schema, bool builtin, Json& out) {
  if (schema.type != SchemaType::kArray) {
    return;
  }
  if (schema.items != nullptr) {
    Json item = write(*schema.items, builtin);
    out["items"] = builtin ? with_zero(std::move(item), *schema.items) : std::move(item);
  }
  if (schema.list_type == krm::ListType::kMap) {
    out["x-kubernetes-list-type"] = "map";
    for (const std::string& key : schema.list_map_keys) {
      out["x-kubernetes-list-map-keys"].push_back(key);
    }
  } else if (schema.list_type == krm::ListType::kSet) {
    out["x-kubernetes-list-type"] = "set";
  } else if (builtin) {
    out["x-kubernetes-list-type"] = "atomic";
  }
  if (!schema.patch_merge_key.empty()) {
    out["x-kubernetes-patch-merge-key"] = schema.patch_merge_key;
  }
  if (!schema.patch_merge_key.empty() || schema.patch_merge_primitive) {
    out["x-kubernetes-patch-strategy"] = "merge";
  }
}

}  // namespace kintsugi::apiserver::internal
