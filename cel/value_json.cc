#include <algorithm>
#include <array>

#include "base/strings.h"
#include "cel/internal/text.h"
#include "cel/internal/value.h"
#include "krm/formats.h"

namespace kintsugi::cel {

namespace {

constexpr std::array<std::string_view, 21> kReserved = {
    "as",       "break",   "const",  "continue", "else", "false", "for",
    "function", "if",      "import", "in",       "let",  "loop",  "namespace",
    "null",     "package", "return", "true",     "var",  "void",  "while"};

bool is_reserved(std::string_view word) {
  return std::find(kReserved.begin(), kReserved.end(), word) != kReserved.end();
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool holds_metadata(const krm::Schema& schema) {
  if (schema.embedded_resource) {
    return true;
  }
  const krm::SchemaProperty* metadata = schema.property("metadata");
  return metadata != nullptr && metadata->schema->type_name == "ObjectMeta";
}

std::string_view go_kind(const krm::Json& json) {
  switch (json.type()) {
    case krm::Json::Type::kString:
      return "string";
    case krm::Json::Type::kBool:
      return "bool";
    case krm::Json::Type::kInteger:
      return "int64";
    case krm::Json::Type::kArray:
      return "[]interface {}";
    case krm::Json::Type::kObject:
      return "map[string]interface {}";
    default:
      return "float64";
  }
}

Value misfit(std::string_view wanted, const krm::Json& json) {
  return Value::error("invalid data, expected " + std::string(wanted) + ", got " +
                      std::string(go_kind(json)));
}

Value formatted(std::string_view text, std::string_view format) {
  const auto broken = [&](std::string_view what) {
    return Value::error("Invalid " + std::string(what) + ' ' + std::string(text));
  };
  if (format == "duration") {
    auto parsed = parse_duration(text);
    parsed = parsed ? parsed : krm::worded_duration(text);
    return parsed ? Value::duration(*parsed) : broken("duration");
  }
  if (format == "date") {
    const auto parsed = parse_timestamp(std::string(text) + "T00:00:00Z");
    return parsed ? Value::timestamp(parsed->seconds, 0) : broken("date formatted string");
  }
  if (format == "date-time") {
    const auto parsed = parse_timestamp(text);
    return parsed ? Value::timestamp(parsed->seconds, parsed->nanos)
                  : broken("date-time formatted string");
  }
  auto decoded = base64_decode(text);
  return decoded ? Value::bytes(std::move(*decoded)) : broken("byte formatted string");
}

}  // namespace

bool escape_name(std::string_view name, std::string& out) {
  out.clear();
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) {
    return false;
  }
  if (is_reserved(name)) {
    out = "__" + std::string(name) + "__";
    return true;
  }
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '_' && i + 1 < name.size() && name[i + 1] == '_') {
      out += "__underscores__";
      ++i;
    } else if (c == '.') {
      out += "__dot__";
    } else if (c == '-') {
      out += "__dash__";
    } else if (c == '/') {
      out += "__slash__";
    } else if (is_word(c)) {
      out += c;
    } else {
      return false;
    }
  }
  return true;
}

bool unescape_name(std::string_view escaped, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < escaped.size();) {
    if (escaped.substr(i, 2) != "__") {
      out += escaped[i++];
      continue;
    }
    std::size_t end = i + 2;
    while (end < escaped.size() && escaped[end] != '_') {
      ++end;
    }
    const std::string_view word = escaped.substr(i + 2, end - i - 2);
    if (word.empty() || escaped.substr(end, 2) != "__") {
      out += escaped[i++];
      continue;
    }
    if (word == "underscores") {
      out += "__";
    } else if (word == "dot") {
      out += '.';
    } else if (word == "dash") {
      out += '-';
    } else if (word == "slash") {
      out += '/';
    } else if (is_reserved(word) && i == 0 && end + 2 == escaped.size()) {
      out += word;
    } else {
      return false;
    }
    i = end + 2;
  }
  return true;
}

const krm::SchemaPtr& string_schema() {
  static const auto& schema = *new krm::SchemaPtr([] {
    auto out = std::make_shared<krm::Schema>();
    out->type = krm::SchemaType::kString;
    return out;
  }());
  return schema;
}

const krm::SchemaPtr& visible_metadata() {
  static const auto& schema = *new krm::SchemaPtr([] {
    auto out = std::make_shared<krm::Schema>();
    out->type = krm::SchemaType::kObject;
    for (const char* name : {"generateName", "name"}) {
      krm::SchemaProperty property;
      property.name = name;
      property.schema = string_schema();
      out->properties.push_back(std::move(property));
    }
    return out;
  }());
  return schema;
}

const krm::SchemaPtr& dynamic_schema() {
  static const auto& schema = *new krm::SchemaPtr([] {
    auto out = std::make_shared<krm::Schema>();
    out->nullable = true;
    const krm::SchemaPtr self(krm::SchemaPtr(),
                              out.get());  // owns nothing, so that it may go round
    out->additional = self;
    out->items = self;
    return out;
  }());
  return schema;
}

const krm::Schema* Value::member_schema(std::string_view key) const {
  if ((key == "metadata" || key == "kind" || key == "apiVersion") && holds_metadata(*schema_)) {
    return key == "metadata" ? visible_metadata().get() : string_schema().get();
  }
  if (const krm::SchemaProperty* property = schema_->property(key)) {
    return property->schema.get();
  }
  return schema_->additional.get();
}

Value Value::from_json(const krm::Json& json, const krm::Schema& schema) {
  if (json.is_null()) {
    return schema.nullable ? Value()
                           : error("invalid data, got null for schema with nullable=false");
  }
  const auto view = [&](Kind kind) {
    Value out = of_kind(kind);
    out.json_ = &json;
    out.schema_ = &schema;
    return out;
  };
  if (&schema == dynamic_schema().get()) {
    switch (json.type()) {
      case krm::Json::Type::kString:
        return string_view(json.as_string());
      case krm::Json::Type::kBool:
        return boolean(json.as_bool());
      case krm::Json::Type::kInteger:
        return integer(json.as_integer());
      case krm::Json::Type::kArray:
        return view(Kind::kList);
      case krm::Json::Type::kObject:
        return view(Kind::kMap);
      default:
        return real(json.as_double());
    }
  }
  switch (schema.type) {
    case krm::SchemaType::kIntOrString:
      if (json.is_string()) {
        return string_view(json.as_string());
      }
      return json.is_integer() ? integer(json.as_integer())
                               : error(
                                     "invalid data, expected XIntOrString value to be either a "
                                     "string or integer");
    case krm::SchemaType::kObject:
      return json.is_object()
                 ? view(Kind::kMap)
                 : error("invalid data, expected a map for the provided schema with type=object");
    case krm::SchemaType::kArray:
      if (!json.is_array()) {
        return error("invalid data, expected an array for the provided schema with type=array");
      }
      return schema.items ? view(Kind::kList)
                          : error("invalid array type, expected Items with a non-empty Schema");
    case krm::SchemaType::kString:
      if (!json.is_string()) {
        return misfit("string", json);
      }
      if (schema.format == "duration" || schema.format == "date" || schema.format == "date-time" ||
          schema.format == "byte") {
        return formatted(json.as_string(), schema.format);
      }
      return string_view(json.as_string());
    case krm::SchemaType::kNumber:
      return json.is_number() ? real(json.as_double()) : misfit("float", json);
    case krm::SchemaType::kInteger:
      return json.is_integer() ? integer(json.as_integer()) : misfit("int", json);
    case krm::SchemaType::kBoolean:
      return json.is_bool() ? boolean(json.as_bool()) : misfit("bool", json);
    case krm::SchemaType::kAny:
      return view(Kind::kUnknown);
  }
  return error("invalid type");
}

}  // namespace kintsugi::cel
