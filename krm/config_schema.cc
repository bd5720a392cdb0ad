#include "krm/config_schema.h"

#include <map>
#include <utility>

#include "krm/config_environment.h"

namespace kintsugi::krm {
namespace {

/// A section, or a key where there is a schema.
struct Node {
  std::map<std::string, Node> below;
  Json leaf;
};

Json schema_of(const Node& node);

Json section_schema(Json properties) {
  return Json::object(
      {{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}});
}

void fill(const ConfigTable& table, Node& root);

Json table_schema(const std::optional<ConfigTable>& table) {
  Node node;
  if (table) {
    fill(*table, node);
  }
  return schema_of(node);
}

Json key_schema(const ConfigValue& value) {
  Json out = value.schema;
  Json now = value.show();
  if (!now.is_string() || !now.as_string().empty()) {
    out["default"] = std::move(now);
  }
  return out;
}

void fill(const ConfigTable& table, Node& root) {
  for (const ConfigKey& key : table) {
    Node* at = &root;
    for (const std::string& name : key_names(key)) {
      at = &at->below[name];
    }
    if (key.value.show) {
      at->leaf = key_schema(key.value);
    } else if (!key.sections.named) {
      at->leaf = Json::object({{"type", "array"}, {"items", table_schema(key.sections.add("0"))}});
    } else if (const auto all = key.sections.all(); !all.empty()) {
      for (const auto& [name, keys] : all) {
        fill(keys, at->below[name]);
      }
    } else {
      at->leaf = Json::object(
          {{"type", "object"}, {"additionalProperties", table_schema(key.sections.add("any"))}});
    }
  }
}

Json schema_of(const Node& node) {
  if (!node.leaf.is_null()) {
    return node.leaf;
  }
  Json properties = Json::object();
  for (const auto& [name, inner] : node.below) {
    properties[name] = schema_of(inner);
  }
  return section_schema(std::move(properties));
}

}  // namespace

ConfigDescription describe_config(std::string_view kind, const ConfigTable& table) {
  ConfigDescription out;
  out.variables = environment_names(table);
  Node root;
  root.below["apiVersion"].leaf = Json::object({{"const", kConfigVersion}});
  root.below["kind"].leaf = Json::object({{"const", kind}});
  fill(table, root);
  out.schema = schema_of(root);
  out.schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  out.schema["title"] = kind;
  Json required = Json::array();
  required.push_back("apiVersion");
  required.push_back("kind");
  out.schema["required"] = std::move(required);
  return out;
}

}  // namespace kintsugi::krm
