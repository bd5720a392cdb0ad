#include <utility>

#include "krm/status.h"
#include "krm/structural.h"
#include "krm/structural_check.h"

namespace kintsugi::krm {

namespace {

constexpr int kMaxDepth = 400;

void check_defaults(const Json& schema, const std::string& path, bool root, int depth,
                    std::vector<Cause>& causes) {
  if (depth > kMaxDepth) {
    return;
  }
  if (const Json* given = schema.find("default"); given != nullptr && !given->is_null()) {
    const SchemaPtr structure = structural_schema(schema, false);
    const Json& value = *given;
    const std::size_t before = causes.size();
    Json wrapped = Json::object({{"value", value}});
    Schema holder;
    holder.type = SchemaType::kObject;
    SchemaProperty property;
    property.name = "value";
    property.schema = structure;
    holder.properties.push_back(std::move(property));
    if (!prune(holder, wrapped).empty()) {
      causes.push_back(field_invalid(path + ".default", value, "must not have unknown fields"));
    } else {
      std::vector<Cause> faults;
      validate_value(*structure, value, {}, faults);
      for (Cause& fault : faults) {
        fault.field = path + ".default" +
                      (fault.field.empty() || fault.field == "<nil>" ? "" : "." + fault.field);
        causes.push_back(std::move(fault));
      }
    }
    if (causes.size() != before) {
      return;
    }
  }
  static const Json& none = *new Json();
  const Json* properties = schema.find("properties");
  for (const JsonMember& member : (properties == nullptr ? none : *properties).members()) {
    if (root && (member.key == "metadata" || member.key == "apiVersion" || member.key == "kind")) {
      continue;
    }
    check_defaults(member.value, path + ".properties[" + member.key + "]", false, depth + 1,
                   causes);
  }
  if (const Json* items = schema.find("items")) {
    check_defaults(*items, path + ".items", false, depth + 1, causes);
  }
  if (const Json* additional = schema.find("additionalProperties")) {
    check_defaults(*additional, path + ".additionalProperties", false, depth + 1, causes);
  }
}

}  // namespace

void check_schema_defaults(const Json& schema, const std::string& path,
                           std::vector<Cause>& causes) {
  check_defaults(schema, path, true, 0, causes);
}

}  // namespace kintsugi::krm
