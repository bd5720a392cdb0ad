#include <algorithm>
#include <vector>

#include "base/strings.h"
#include "krm/protobuf.h"
#include "krm/protobuf_wire.h"
#include "krm/strict_time.h"

namespace kintsugi::krm {

namespace {

void put_field(std::string& out, std::uint32_t number, const Schema& schema, const Json& value);

std::string time_message(const Json& value) {
  std::string out;
  if (const auto instant = parse_rfc3339(value.as_string())) {
    put_number(out, 1, static_cast<std::uint64_t>(instant->seconds));
    put_number(out, 2, static_cast<std::uint64_t>(instant->nanos));
  }
  return out;
}

std::string raw_message(const Json& value) {
  std::string out;
  put_bytes(out, 1, value.dump());
  return out;
}

std::string alternative_message(const Schema& schema, const Json& value) {
  std::string out;
  const bool or_bool = schema.form == ScalarForm::kSchemaOrBool;
  if (value.is_object()) {
    if (or_bool) {
      put_number(out, 1, 1);
    }
    put_bytes(out, or_bool ? 2 : 1, encode_protobuf_message(*schema.items, value));
  } else if (value.is_bool()) {
    put_number(out, 1, value.as_bool() ? 1 : 0);
  } else {
    for (const Json& item : value.items()) {
      put_bytes(out, 2,
                schema.form == ScalarForm::kSchemaOrNames
                    ? std::string(item.as_string())
                    : encode_protobuf_message(*schema.items, item));
    }
  }
  return out;
}

std::string wrapped_message(const Json& value) {
  std::string out;
  for (const Json& item : value.items()) {
    put_bytes(out, 1, item.as_string());
  }
  return out;
}

void put_text(std::string& out, std::uint32_t number, const Schema& schema, const Json& value) {
  switch (schema.form) {
    case ScalarForm::kBytes:
      put_bytes(out, number, base64_decode(value.as_string()).value_or(std::string()));
      return;
    case ScalarForm::kTime:
    case ScalarForm::kMicroTime:
      put_bytes(out, number, time_message(value));
      return;
    case ScalarForm::kQuantity: {
      std::string message;
      put_bytes(message, 1, value.as_string());
      put_bytes(out, number, message);
      return;
    }
    default:
      put_bytes(out, number, value.as_string());
  }
}

void put_map(std::string& out, std::uint32_t number, const Schema& value, const Json& map) {
  for (const JsonMember& member : map.members()) {
    std::string entry;
    put_bytes(entry, 1, member.key);
    put_field(entry, 2, value, member.value);
    put_bytes(out, number, entry);
  }
}

void put_field(std::string& out, std::uint32_t number, const Schema& schema, const Json& value) {
  if (schema.form == ScalarForm::kRawObject) {
    put_bytes(out, number, raw_message(value));
    return;
  }
  if (value.is_null()) {
    if (schema.form == ScalarForm::kTime || schema.form == ScalarForm::kMicroTime) {
      put_bytes(out, number, {});
    }
    return;
  }
  switch (schema.type) {
    case SchemaType::kBoolean:
      put_number(out, number, value.as_bool() ? 1 : 0);
      return;
    case SchemaType::kInteger:
      put_number(out, number, static_cast<std::uint64_t>(value.as_integer()));
      return;
    case SchemaType::kNumber:
      put_double(out, number, value.as_double());
      return;
    case SchemaType::kObject:
      if (schema.additional) {
        put_map(out, number, *schema.additional, value);
      } else {
        put_bytes(out, number, encode_protobuf_message(schema, value));
      }
      return;
    case SchemaType::kArray:
      if (schema.form == ScalarForm::kWrappedList) {
        put_bytes(out, number, wrapped_message(value));
        return;
      }
      for (const Json& item : value.items()) {
        put_field(out, number, *schema.items, item);
      }
      return;
    case SchemaType::kAny:
      put_bytes(out, number, alternative_message(schema, value));
      return;
    default:
      put_text(out, number, schema, value);
  }
}

}  // namespace

std::string encode_protobuf_message(const Schema& schema, const Json& value) {
  std::vector<const SchemaProperty*> order;
  order.reserve(schema.properties.size());
  for (const SchemaProperty& property : schema.properties) {
    if (property.proto != 0) {
      order.push_back(&property);
    }
  }
  std::sort(order.begin(), order.end(),
            [](const SchemaProperty* a, const SchemaProperty* b) { return a->proto < b->proto; });
  std::string out;
  for (const SchemaProperty* property : order) {
    if (const Json* member = value.find(property->name)) {
      if (member->is_null() && property->keep_zero) {
        continue;
      }
      put_field(out, property->proto, *property->schema, *member);
    }
  }
  return out;
}

}  // namespace kintsugi::krm
