#include "cel/internal/schema_type.h"

#include <algorithm>
#include <utility>

#include "cel/internal/value.h"

namespace kintsugi::cel {

namespace {

constexpr std::int64_t kMinString = 2;
constexpr std::int64_t kNameLength = 253;

std::uint64_t positive(std::int64_t value) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
}

std::shared_ptr<Declaration> simple(TypeKind kind, std::int64_t min_size) {
  auto out = std::make_shared<Declaration>();
  out->type = simple_type(kind);
  out->min_size = min_size;
  return out;
}

DeclarationPtr declare_string(const krm::Schema& schema) {
  struct Format {
    std::string_view name;
    TypeKind kind;
    std::int64_t min_size, max_length;
  };
  static constexpr Format kFormats[] = {
      {"duration", TypeKind::kDuration, 3, 32},
      {"date", TypeKind::kTimestamp, 12, 12},
      {"date-time", TypeKind::kTimestamp, 21, 32},
  };
  for (const Format& format : kFormats) {
    if (format.name == schema.format) {
      auto out = simple(format.kind, format.min_size);
      out->max_elements = positive(format.max_length);
      return out;
    }
  }
  const bool bytes = schema.format == "byte";
  auto out = simple(bytes ? TypeKind::kBytes : TypeKind::kString, kMinString);
  if (schema.max_length) {
    out->max_elements = positive(*schema.max_length) * (bytes ? 1 : 4);
  } else if (!schema.enum_values.empty() && !bytes) {
    out->max_elements = 0;
    for (const krm::Json& each : schema.enum_values) {
      out->max_elements = std::max<std::uint64_t>(out->max_elements, each.as_string().size());
    }
  } else {
    out->max_elements = kMaxRequest - 2;
  }
  return out;
}

DeclarationPtr name_string(const krm::Schema* metadata, std::string_view field,
                           std::int64_t limit) {
  const krm::SchemaProperty* property = metadata == nullptr ? nullptr : metadata->property(field);
  if (property != nullptr && property->schema->max_length) {
    limit = std::min(limit, *property->schema->max_length);
  }
  auto out = simple(TypeKind::kString, kMinString);
  out->max_elements = positive(limit) * 4;
  return out;
}

DeclarationPtr declare_object(const krm::Schema& schema, bool resource_root,
                              const std::string& name) {
  auto out = std::make_shared<Declaration>();
  out->min_size = 2;
  const auto add = [&](const std::string& field, DeclarationPtr type, bool required) {
    if (type == nullptr) {
      return;
    }
    if (required) {
      out->min_size += static_cast<std::int64_t>(field.size()) + type->min_size + 4;
    }
    if (std::string escaped; escape_name(field, escaped)) {
      out->fields[escaped] = std::move(type);
    }
  };
  const auto is_required = [&](std::string_view field) {
    const krm::SchemaProperty* property = schema.property(field);
    return (property != nullptr && property->required) ||
           std::find(schema.required_names.begin(), schema.required_names.end(), field) !=
               schema.required_names.end();
  };
  for (const krm::SchemaProperty& property : schema.properties) {
    const bool special = resource_root && (property.name == "apiVersion" ||
                                           property.name == "kind" || property.name == "metadata");
    if (!special) {
      add(property.name,
          declare(*property.schema, property.schema->embedded_resource, name + '.' + property.name),
          is_required(property.name) && !property.schema->default_value);
    }
  }
  if (resource_root) {
    for (const char* field : {"apiVersion", "kind"}) {
      auto text = simple(TypeKind::kString, kMinString);
      text->max_elements = kMaxRequest - 2;
      add(field, std::move(text), is_required(field));
    }
    const krm::SchemaProperty* property = schema.property("metadata");
    const krm::Schema* metadata = property == nullptr ? nullptr : property->schema.get();
    auto visible = std::make_shared<Declaration>();
    visible->min_size = 2;
    visible->fields["name"] = name_string(metadata, "name", kNameLength);
    visible->fields["generateName"] = name_string(metadata, "generateName", kNameLength - 1);
    visible->type = struct_type(name + ".metadata", visible.get());
    add("metadata", std::move(visible), is_required("metadata"));
  }
  out->type = struct_type(name, out.get());
  return out;
}

}  // namespace

DeclarationPtr declare(const krm::Schema& schema, bool resource_root, const std::string& name) {
  switch (schema.type) {
    case krm::SchemaType::kIntOrString: {
      auto out = simple(TypeKind::kDyn, 1);
      out->max_elements = schema.max_length ? positive(*schema.max_length) * 4 : kMaxRequest - 2;
      return out;
    }
    case krm::SchemaType::kArray: {
      DeclarationPtr items =
          schema.items ? declare(*schema.items, schema.items->embedded_resource, name + ".@idx")
                       : nullptr;
      if (items == nullptr) {
        return nullptr;
      }
      auto out = std::make_shared<Declaration>();
      out->type = list_type(items->type);
      out->min_size = 2;
      out->max_elements = schema.max_items ? positive(*schema.max_items)
                                           : positive((kMaxRequest - 2) / (items->min_size + 1));
      out->element = std::move(items);
      return out;
    }
    case krm::SchemaType::kObject: {
      if (schema.additional == nullptr) {
        return declare_object(schema, resource_root, name);
      }
      DeclarationPtr values =
          declare(*schema.additional, schema.additional->embedded_resource, name + ".@elem");
      if (values == nullptr) {
        return nullptr;
      }
      auto out = std::make_shared<Declaration>();
      out->type = map_type(simple_type(TypeKind::kString), values->type);
      out->min_size = 2;
      out->max_elements = schema.max_properties
                              ? positive(*schema.max_properties)
                              : positive((kMaxRequest - 2) / (values->min_size + 6));
      out->key = simple(TypeKind::kString, kMinString);
      out->element = std::move(values);
      return out;
    }
    case krm::SchemaType::kString:
      return declare_string(schema);
    case krm::SchemaType::kInteger:
      return simple(TypeKind::kInt, 1);
    case krm::SchemaType::kNumber:
      return simple(TypeKind::kDouble, 1);
    case krm::SchemaType::kBoolean:
      return simple(TypeKind::kBool, 4);
    case krm::SchemaType::kAny:
      return nullptr;
  }
  return nullptr;
}

}  // namespace kintsugi::cel
