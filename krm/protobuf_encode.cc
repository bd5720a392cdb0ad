#include <map>
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

/// The fields that have the same number, and further numbers inside of it where JSON shows it
/// inline.
void put_level(std::string& out, const std::vector<const SchemaProperty*>& fields, unsigned bits,
               const Json& value) {
  std::map<std::uint32_t, std::vector<const SchemaProperty*>> by_number;
  for (const SchemaProperty* property : fields) {
    by_number[(property->proto >> bits) & kMaxInlineField].push_back(property);
  }
  for (const auto& [number, same] : by_number) {
    if (same.front()->proto >> (bits + kInlineBits) != 0) {
      std::string inside;
      put_level(inside, same, bits + kInlineBits, value);
      put_bytes(out, number, inside);
      continue;
    }
    const SchemaProperty& property = *same.front();
    const Json* member = value.find(property.name);
    if (member != nullptr && !(member->is_null() && property.keep_zero)) {
      put_field(out, number, *property.schema, *member);
    }
  }
}

}  // namespace

std::string encode_protobuf_message(const Schema& schema, const Json& value) {
  std::vector<const SchemaProperty*> fields;
  fields.reserve(schema.properties.size());
  for (const SchemaProperty& property : schema.properties) {
    if (property.proto != 0) {
      fields.push_back(&property);
    }
  }
  std::string out;
  put_level(out, fields, 0, value);
  return out;
}

}  // namespace kintsugi::krm
