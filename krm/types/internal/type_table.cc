#include "krm/types/internal/type_table.h"

#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "krm/protobuf_wire.h"

namespace kintsugi::krm {

namespace {

/// A pointer into the table that owns nothing, so that types may refer to each other in circles.
SchemaPtr borrow(const Schema* schema) { return SchemaPtr(SchemaPtr(), schema); }

std::vector<std::string_view> words(std::string_view row) {
  std::vector<std::string_view> out;
  for (std::string_view word : split(row, ' ')) {
    if (!word.empty()) {
      out.push_back(word);
    }
  }
  return out;
}

[[noreturn]] void reject(std::string_view row) {
  log_error("malformed type table", {{"row", row}});
  std::abort();
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.remove_prefix(prefix.size());
  return true;
}

struct Leaf {
  std::string_view name;
  SchemaType type;
  ScalarForm form;
  std::string_view format;
};
constexpr Leaf kLeaves[] = {
    {"string", SchemaType::kString, ScalarForm::kPlain, ""},
    {"bool", SchemaType::kBoolean, ScalarForm::kPlain, ""},
    {"int32", SchemaType::kInteger, ScalarForm::kPlain, "int32"},
    {"int64", SchemaType::kInteger, ScalarForm::kPlain, "int64"},
    {"float64", SchemaType::kNumber, ScalarForm::kPlain, "double"},
    {"bytes", SchemaType::kString, ScalarForm::kBytes, "byte"},
    {"Time", SchemaType::kString, ScalarForm::kTime, "date-time"},
    {"MicroTime", SchemaType::kString, ScalarForm::kMicroTime, "date-time"},
    {"Duration", SchemaType::kString, ScalarForm::kDuration, ""},
    {"Quantity", SchemaType::kString, ScalarForm::kQuantity, ""},
    {"raw", SchemaType::kAny, ScalarForm::kRawObject, ""},
    {"wrapped", SchemaType::kArray, ScalarForm::kWrappedList, ""},
    {"SchemaOrArray", SchemaType::kAny, ScalarForm::kSchemaOrArray, ""},
    {"SchemaOrBool", SchemaType::kAny, ScalarForm::kSchemaOrBool, ""},
    {"SchemaOrNames", SchemaType::kAny, ScalarForm::kSchemaOrNames, ""},
};

}  // namespace

TypeTable::TypeTable(std::initializer_list<std::string_view> texts) {
  for (std::string_view text : texts) {
    for (std::string_view row : split(text, '\n')) {
      if (row.empty() || row.front() == ' ') {
        continue;
      }
      const auto parts = words(row);
      auto schema = std::make_unique<Schema>();
      schema->type = SchemaType::kObject;
      schema->type_name = parts[0].substr(parts[0].rfind('.') + 1);
      for (std::size_t i = 1; i < parts.size(); ++i) {
        if (parts[i] == "atomic") {
          schema->map_type = MapType::kAtomic;
        } else if (parts[i] == "kind" && i + 1 < parts.size()) {
          ++i;
          kinds_.emplace(std::string(parts[i]) + "/" + schema->type_name, borrow(schema.get()));
        } else {
          reject(row);
        }
      }
      types_.emplace(parts[0], std::move(schema));
    }
  }
  for (std::string_view text : texts) {
    Schema* owner = nullptr;
    for (std::string_view row : split(text, '\n')) {
      if (row.empty()) {
        continue;
      }
      if (row.front() == ' ') {
        if (owner == nullptr) {
          reject(row);
        }
        add_field(*owner, row);
      } else {
        const auto parts = words(row);
        owner = types_.find(parts[0])->second.get();
        if (std::find(parts.begin(), parts.end(), "kind") != parts.end()) {
          add_field(*owner, "apiVersion 0 string");
          add_field(*owner, "kind 0 string");
        }
      }
    }
  }
  for (auto& [name, schema] : types_) {
    std::sort(schema->properties.begin(), schema->properties.end(),
              [](const SchemaProperty& a, const SchemaProperty& b) { return a.name < b.name; });
  }
}

void TypeTable::add_field(Schema& owner, std::string_view row) {
  const auto parts = words(row);
  if (parts.size() < 3) {
    reject(row);
  }
  SchemaProperty property;
  property.name = parts[0];
  unsigned shift = 0;
  for (const std::string_view level : split(parts[1], '.')) {
    const auto number = parse_decimal<std::uint16_t>(level);
    if (!number || *number > kMaxInlineField || shift > 2 * kInlineBits) {
      reject(row);
    }
    property.proto = static_cast<std::uint16_t>(property.proto | (*number << shift));
    shift += kInlineBits;
  }
  std::string_view type = parts[2];
  property.keep_zero = take_prefix(type, "*");
  std::string suffix;
  for (std::size_t i = 3; i < parts.size(); ++i) {
    std::string_view flag = parts[i];
    if (flag == "always") {
      property.always = true;
    } else if (flag == "keep") {
      property.keep_zero = true;
    } else {
      suffix += ' ';
      suffix += flag;
    }
  }
  property.schema = resolve(std::string(type) + suffix);
  owner.properties.push_back(std::move(property));
}

SchemaPtr TypeTable::resolve(std::string_view expression) {
  const auto known = derived_.find(expression);
  if (known != derived_.end()) {
    return borrow(known->second.get());
  }
  const auto named = types_.find(expression);
  if (named != types_.end()) {
    return borrow(named->second.get());
  }
  auto made = std::make_unique<Schema>();
  const auto parts = words(expression);
  std::string_view type = parts[0];
  if (take_prefix(type, "[]")) {
    made->type = SchemaType::kArray;
    made->items = resolve(type);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      std::string_view flag = parts[i];
      if (flag == "set") {
        made->list_type = ListType::kSet;
      } else if (take_prefix(flag, "map=")) {
        made->list_type = ListType::kMap;
        made->list_map_keys.emplace_back(flag);
      } else if (flag == "merge") {
        made->patch_merge_primitive = true;
      } else if (take_prefix(flag, "merge=")) {
        made->patch_merge_key = flag;
      } else {
        reject(expression);
      }
    }
  } else if (take_prefix(type, "map:")) {
    made->type = SchemaType::kObject;
    made->additional = resolve(type);
  } else {
    const auto* leaf = std::find_if(std::begin(kLeaves), std::end(kLeaves),
                                    [&](const Leaf& each) { return each.name == type; });
    if (leaf == std::end(kLeaves)) {
      reject(expression);
    }
    made->type = leaf->type;
    made->form = leaf->form;
    made->format = leaf->format;
    if (leaf->form == ScalarForm::kWrappedList) {
      made->items = resolve("string");
    } else if (leaf->form == ScalarForm::kRawObject) {
      made->preserve_unknown = true;
    } else if (leaf->type == SchemaType::kAny) {
      made->items = resolve("JSONSchemaProps");
    }
  }
  return borrow(derived_.emplace(expression, std::move(made)).first->second.get());
}

SchemaPtr TypeTable::type(std::string_view name) const {
  const auto it = types_.find(name);
  return it == types_.end() ? nullptr : borrow(it->second.get());
}

SchemaPtr TypeTable::kind(std::string_view api_version, std::string_view kind) const {
  std::string key(api_version);
  key += '/';
  key += kind;
  const auto it = kinds_.find(key);
  return it == kinds_.end() ? nullptr : it->second;
}

}  // namespace kintsugi::krm
