#include "apiserver/internal/openapi_v2_protobuf.h"

#include <cstdint>

#include "krm/protobuf_wire.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;
using krm::JsonMember;
using krm::put_bytes;
using krm::put_number;

/// How a member of a JSON object travels.
enum class Form : std::uint8_t {
  kText,
  kTexts,  ///< repeated string
  kFlag,
  kInteger,
  kNumber,
  kAny,      ///< message Any: the value as YAML text
  kAnys,     ///< repeated Any
  kSchema,   ///< message Schema
  kWrapped,  ///< a text in a message {1: text}
};

struct Row {
  std::string_view key;
  std::uint32_t field;
  Form form;
};

/// A message: its fields in order, and the one that holds its vendor extensions (0: none).
struct Message {
  const Row* begin;
  const Row* end;
  std::uint32_t extensions;
};

constexpr Row kSchemaRows[] = {
    {"$ref", 1, Form::kText},
    {"format", 2, Form::kText},
    {"title", 3, Form::kText},
    {"description", 4, Form::kText},
    {"default", 5, Form::kAny},
    {"multipleOf", 6, Form::kNumber},
    {"maximum", 7, Form::kNumber},
    {"exclusiveMaximum", 8, Form::kFlag},
    {"minimum", 9, Form::kNumber},
    {"exclusiveMinimum", 10, Form::kFlag},
    {"maxLength", 11, Form::kInteger},
    {"minLength", 12, Form::kInteger},
    {"pattern", 13, Form::kText},
    {"maxItems", 14, Form::kInteger},
    {"minItems", 15, Form::kInteger},
    {"uniqueItems", 16, Form::kFlag},
    {"maxProperties", 17, Form::kInteger},
    {"minProperties", 18, Form::kInteger},
    {"required", 19, Form::kTexts},
    {"enum", 20, Form::kAnys},
    {"type", 22, Form::kWrapped},
};
constexpr Row kOperationRows[] = {
    {"tags", 1, Form::kTexts},     {"description", 3, Form::kText}, {"operationId", 5, Form::kText},
    {"produces", 6, Form::kTexts}, {"consumes", 7, Form::kTexts},
};
constexpr Row kBodyRows[] = {
    {"description", 1, Form::kText}, {"name", 2, Form::kText},     {"in", 3, Form::kText},
    {"required", 4, Form::kFlag},    {"schema", 5, Form::kSchema},
};
constexpr Row kQueryRows[] = {
    {"required", 1, Form::kFlag}, {"in", 2, Form::kText},   {"description", 3, Form::kText},
    {"name", 4, Form::kText},     {"type", 6, Form::kText}, {"uniqueItems", 20, Form::kFlag},
};
constexpr Row kPathRows[] = {
    {"required", 1, Form::kFlag}, {"in", 2, Form::kText},   {"description", 3, Form::kText},
    {"name", 4, Form::kText},     {"type", 5, Form::kText}, {"uniqueItems", 19, Form::kFlag},
};
constexpr Message kSchema = {std::begin(kSchemaRows), std::end(kSchemaRows), 31};
constexpr Message kOperation = {std::begin(kOperationRows), std::end(kOperationRows), 13};
constexpr Message kBody = {std::begin(kBodyRows), std::end(kBodyRows), 6};
constexpr Message kQuery = {std::begin(kQueryRows), std::end(kQueryRows), 23};
constexpr Message kPath = {std::begin(kPathRows), std::end(kPathRows), 22};

constexpr std::pair<std::string_view, std::uint32_t> kOperations[] = {
    {"get", 2}, {"put", 3}, {"post", 4}, {"delete", 5}, {"options", 6}, {"head", 7}, {"patch", 8}};

std::string schema_message(const Json& schema);

std::string text_message(std::uint32_t field, std::string_view text) {
  std::string out;
  put_bytes(out, field, text);
  return out;
}

/// JSON is YAML.
std::string any_message(const Json& value) { return text_message(2, value.dump()); }

void put_row(std::string& out, const Row& row, const Json& value) {
  switch (row.form) {
    case Form::kText:
      put_bytes(out, row.field, value.as_string());
      return;
    case Form::kTexts:
      for (const Json& each : value.items()) {
        put_bytes(out, row.field, each.as_string());
      }
      return;
    case Form::kFlag:
      put_number(out, row.field, value.as_bool() ? 1 : 0);
      return;
    case Form::kInteger:
      put_number(out, row.field, static_cast<std::uint64_t>(value.as_integer()));
      return;
    case Form::kNumber:
      krm::put_double(out, row.field, value.as_double());
      return;
    case Form::kAny:
      put_bytes(out, row.field, any_message(value));
      return;
    case Form::kAnys:
      for (const Json& each : value.items()) {
        put_bytes(out, row.field, any_message(each));
      }
      return;
    case Form::kSchema:
      put_bytes(out, row.field, schema_message(value));
      return;
    case Form::kWrapped:
      put_bytes(out, row.field, text_message(1, value.as_string()));
      return;
  }
}

/// {1: name, 2: value}
std::string named(std::string_view name, std::string_view value) {
  std::string out;
  put_bytes(out, 1, name);
  put_bytes(out, 2, value);
  return out;
}

void put_rows(std::string& out, const Message& message, const Json& object) {
  for (const Row* row = message.begin; row != message.end; ++row) {
    if (const Json* value = object.find(row->key)) {
      put_row(out, *row, *value);
    }
  }
}

void put_extensions(std::string& out, const Message& message, const Json& object) {
  for (const JsonMember& each : object.members()) {
    if (each.key.starts_with("x-")) {
      put_bytes(out, message.extensions, named(each.key, any_message(each.value)));
    }
  }
}

std::string schema_message(const Json& schema) {
  std::string out;
  put_rows(out, kSchema, schema);
  if (const Json* additional = schema.find("additionalProperties")) {
    std::string item;
    if (additional->is_bool()) {
      put_number(item, 2, additional->as_bool() ? 1 : 0);
    } else {
      put_bytes(item, 1, schema_message(*additional));
    }
    put_bytes(out, 21, item);
  }
  if (const Json* items = schema.find("items")) {
    put_bytes(out, 23, text_message(1, schema_message(*items)));
  }
  if (const Json* properties = schema.find("properties")) {
    std::string all;
    for (const JsonMember& each : properties->members()) {
      put_bytes(all, 1, named(each.key, schema_message(each.value)));
    }
    put_bytes(out, 25, all);
  }
  put_extensions(out, kSchema, schema);
  return out;
}

/// ParametersItem {1: Parameter {1: body | 2: NonBodyParameter {3: query | 4: path}}}
std::string parameter_message(const Json& parameter) {
  const std::string_view in = parameter.text({"in"});
  const Message& message = in == "body" ? kBody : in == "path" ? kPath : kQuery;
  std::string own;
  put_rows(own, message, parameter);
  put_extensions(own, message, parameter);
  if (in == "body") {
    return text_message(1, text_message(1, own));
  }
  return text_message(1, text_message(2, text_message(in == "path" ? 4 : 3, own)));
}

void put_parameters(std::string& out, std::uint32_t field, const Json& owner) {
  if (const Json* parameters = owner.find("parameters")) {
    for (const Json& each : parameters->items()) {
      put_bytes(out, field, parameter_message(each));
    }
  }
}

/// Responses {1: {1: code, 2: ResponseValue {1: Response {1: description, 2: {1: Schema}}}}}
std::string responses_message(const Json& responses) {
  std::string out;
  for (const JsonMember& each : responses.members()) {
    std::string response;
    put_bytes(response, 1, each.value.text({"description"}));
    if (const Json* schema = each.value.find("schema")) {
      put_bytes(response, 2, text_message(1, schema_message(*schema)));
    }
    put_bytes(out, 1, named(each.key, text_message(1, response)));
  }
  return out;
}

std::string operation_message(const Json& operation) {
  std::string out;
  put_rows(out, kOperation, operation);
  put_parameters(out, 8, operation);
  if (const Json* responses = operation.find("responses")) {
    put_bytes(out, 9, responses_message(*responses));
  }
  put_extensions(out, kOperation, operation);
  return out;
}

}  // namespace

std::string encode_openapi_definition(std::string_view name, const Json& schema) {
  return named(name, schema_message(schema));
}

void append_openapi_path(std::string& out, std::string_view path, const Json& item) {
  std::string message;
  for (const auto& [method, field] : kOperations) {
    if (const Json* operation = item.find(method)) {
      put_bytes(message, field, operation_message(*operation));
    }
  }
  put_parameters(message, 9, item);
  put_bytes(out, 2, named(path, message));
}

std::string encode_openapi_document(std::string_view title, std::string_view version,
                                    std::string_view paths, std::string_view definitions) {
  std::string out;
  put_bytes(out, 1, "2.0");
  put_bytes(out, 2, named(title, version));
  put_bytes(out, 8, paths);
  put_bytes(out, 9, definitions);
  return out;
}

}  // namespace kintsugi::apiserver::internal
