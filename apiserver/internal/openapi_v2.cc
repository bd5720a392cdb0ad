#include "apiserver/internal/openapi_v2.h"

#include <algorithm>
#include <unordered_set>

#include "apiserver/internal/openapi_v2_protobuf.h"
#include "krm/protobuf_wire.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;
using krm::JsonMember;

constexpr std::size_t kMaxDepth = 100;
constexpr std::string_view kReference = "$ref";
constexpr std::string_view kV3Components = "#/components/schemas/";
constexpr std::string_view kV2Components = "#/definitions/";

/// Members of a schema that v2 has too and that hold no schema. Extensions go along as well.
constexpr std::string_view kPlainMembers[] = {
    "description",   "enum",       "exclusiveMaximum", "exclusiveMinimum", "format",    "maxItems",
    "maximum",       "maxLength",  "maxProperties",    "minItems",         "minLength", "minimum",
    "minProperties", "multipleOf", "pattern",          "required",         "title",     "type",
    "uniqueItems"};

bool is_true(const Json& schema, std::string_view flag) {
  const Json* value = schema.find(flag);
  return value != nullptr && value->as_bool();
}

/// The schema that this one is but a name of: {"$ref"} or {"allOf": [{"$ref"}]}.
std::string_view referred(const Json& schema) {
  const Json* all = schema.find("allOf");
  const bool wraps = all != nullptr && all->size() == 1;
  return (wraps ? all->items().front() : schema).text({kReference});
}

Json reference(std::string_view v3) {
  if (v3.starts_with(kV3Components)) {
    v3.remove_prefix(kV3Components.size());
  }
  return std::string(kV2Components) + std::string(v3);
}

/// An embedded object has these whether its schema says so or not.
void add_embedded_members(Json& schema) {
  Json* properties = schema.find("properties");
  if (properties == nullptr) {
    return;
  }
  constexpr std::pair<std::string_view, std::string_view> kMembers[] = {
      {"apiVersion", "string"}, {"kind", "string"}, {"metadata", "object"}};
  for (const auto& [name, type] : kMembers) {
    if (properties->find(name) == nullptr) {
      (*properties)[name]["type"] = type;
    }
  }
}

Json convert(const Json& v3, bool builtin, std::size_t depth);

void convert_properties(const Json& v3, bool builtin, std::size_t depth, Json& out) {
  const Json* properties = v3.find("properties");
  if (properties != nullptr && properties->size() != 0) {
    Json& shown = out["properties"];
    for (const JsonMember& each : properties->members()) {
      shown[each.key] = convert(each.value, builtin, depth);
    }
  }
  if (const Json* additional = v3.find("additionalProperties")) {
    out["additionalProperties"] =
        additional->is_object() ? convert(*additional, builtin, depth) : *additional;
  }
}

Json convert(const Json& v3, bool builtin, std::size_t depth) {
  Json out = Json::object();
  if (depth > kMaxDepth) {
    return out;
  }
  const std::string_view name = referred(v3);
  if (!name.empty()) {
    out[kReference] = reference(name);
    if (const Json* description = v3.find("description")) {
      out["description"] = *description;
    }
    return out;
  }
  for (const JsonMember& each : v3.members()) {
    if (each.key.starts_with("x-") || std::find(std::begin(kPlainMembers), std::end(kPlainMembers),
                                                each.key) != std::end(kPlainMembers)) {
      out[each.key] = each.value;
    }
  }
  if (const Json* value = v3.find("default"); value != nullptr && !builtin) {
    out["default"] = *value;
  }
  const Json* items = v3.find("items");
  const bool opaque = is_true(v3, "nullable") || is_true(v3, "x-kubernetes-int-or-string") ||
                      (v3.text({"type"}) == "array" && items == nullptr);
  if (opaque) {
    out.erase("type");
    out.erase("required");
    return out;
  }
  if (is_true(v3, "x-kubernetes-preserve-unknown-fields")) {
    out.erase("required");
    return out;
  }
  convert_properties(v3, builtin, depth + 1, out);
  if (items != nullptr) {
    out["items"] = convert(*items, builtin, depth + 1);
  }
  if (is_true(v3, "x-kubernetes-embedded-resource")) {
    add_embedded_members(out);
  }
  return out;
}

/// {"name", "in", "schema": {"type"}} as {"name", "in", "type"}.
Json convert_parameter(const Json& v3) {
  Json out = v3;
  out.erase("schema");
  if (const Json* schema = v3.find("schema")) {
    for (const JsonMember& each : schema->members()) {
      out[each.key] = each.value;
    }
  }
  return out;
}

Json convert_parameters(const Json& v3) {
  Json out = Json::array();
  for (const Json& each : v3.items()) {
    out.push_back(convert_parameter(each));
  }
  return out;
}

Json media_types(const Json* content) {
  Json out = Json::array();
  if (content != nullptr) {
    for (const JsonMember& type : content->members()) {
      out.push_back(type.key);
    }
  }
  return out;
}

/// The schema of the first media type, null without any.
Json schema_of(const Json* content) {
  if (content == nullptr || content->size() == 0) {
    return {};
  }
  const Json* schema = content->members().front().value.find("schema");
  return schema == nullptr ? Json() : openapi_v2_schema(*schema, false);
}

void convert_body(const Json& body, Json& operation) {
  const Json* content = body.find("content");
  operation["consumes"] = media_types(content);
  Json parameter = Json::object({{"name", "body"}, {"in", "body"}});
  parameter["schema"] = schema_of(content);
  if (is_true(body, "required")) {
    parameter["required"] = true;
  }
  operation["parameters"].push_back(std::move(parameter));
}

Json convert_operation(const Json& v3) {
  Json out = v3;
  out.erase("requestBody");
  out.erase("responses");
  if (const Json* parameters = v3.find("parameters")) {
    out["parameters"] = convert_parameters(*parameters);
  }
  if (const Json* body = v3.find("requestBody")) {
    convert_body(*body, out);
  }
  Json responses = Json::object();  // not in `out` yet: its members move when one is added
  if (const Json* answers = v3.find("responses")) {
    for (const JsonMember& answer : answers->members()) {
      Json& shown = responses[answer.key];
      shown["description"] = answer.value.text({"description"});
      const Json* content = answer.value.find("content");
      if (Json schema = schema_of(content); !schema.is_null()) {
        shown["schema"] = std::move(schema);
        out["produces"] = media_types(content);
      }
    }
  }
  out["responses"] = std::move(responses);
  return out;
}

void append_member(std::string& out, std::string_view name, const Json& value) {
  if (!out.empty()) {
    out += ',';
  }
  krm::append_json_string(out, name);
  out += ':';
  value.dump_to(out);
}

}  // namespace

Json openapi_v2_schema(const Json& v3, bool builtin) { return convert(v3, builtin, 0); }

Json openapi_v2_path_item(const Json& v3) {
  Json out = Json::object();
  for (const JsonMember& each : v3.members()) {
    out[each.key] =
        each.key == "parameters" ? convert_parameters(each.value) : convert_operation(each.value);
  }
  return out;
}

OpenApiV2Part openapi_v2_part(const Json& v3, bool builtin, bool protobuf) {
  OpenApiV2Part part;
  if (const Json* paths = v3.find("paths")) {
    for (const JsonMember& path : paths->members()) {
      const Json item = openapi_v2_path_item(path.value);
      if (protobuf) {
        append_openapi_path(part.paths, path.key, item);
      } else {
        append_member(part.paths, path.key, item);
      }
    }
  }
  if (const Json* schemas = v3.at({"components", "schemas"})) {
    for (const JsonMember& schema : schemas->members()) {
      const Json shown = openapi_v2_schema(schema.value, builtin);
      std::string text;
      if (protobuf) {
        text = encode_openapi_definition(schema.key, shown);
      } else {
        append_member(text, schema.key, shown);
      }
      part.definitions.emplace_back(schema.key, std::move(text));
    }
  }
  return part;
}

std::string OpenApiV2Writer::take(std::string_view title, std::string_view version) const {
  std::string paths, definitions;
  std::unordered_set<std::string_view> seen;
  for (const OpenApiV2Part* part : parts_) {
    if (!protobuf_ && !paths.empty() && !part->paths.empty()) {
      paths += ',';
    }
    paths += part->paths;
    for (const auto& [name, text] : part->definitions) {
      if (!seen.insert(name).second) {
        continue;
      }
      if (protobuf_) {
        krm::put_bytes(definitions, 1, text);
      } else {
        definitions += definitions.empty() ? "" : ",";
        definitions += text;
      }
    }
  }
  if (protobuf_) {
    return encode_openapi_document(title, version, paths, definitions);
  }
  const Json info = Json::object({{"title", title}, {"version", version}});
  return "{\"swagger\":\"2.0\",\"info\":" + info.dump() + ",\"paths\":{" + paths +
         "},\"definitions\":{" + definitions + "}}";
}

}  // namespace kintsugi::apiserver::internal
