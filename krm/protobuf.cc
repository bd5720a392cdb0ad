#include "krm/protobuf.h"

#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "krm/protobuf_wire.h"
#include "krm/quantity.h"
#include "krm/strict.h"
#include "krm/strict_time.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::krm {

namespace {

constexpr std::string_view kMagic("k8s\0", 4);
constexpr int kMaxDepth = 200;

tl::unexpected<Error> malformed(std::string_view what) {
  return fail(Errc::kBadRequest, "malformed protobuf: " + std::string(what));
}

/// Where the fields of a message are among the properties: those of one that JSON shows inline
/// begin with the numbers of the messages around it.
struct Place {
  std::uint32_t prefix = 0;
  unsigned bits = 0;

  [[nodiscard]] Place below(std::uint32_t number) const {
    return {prefix | number << bits, bits + kInlineBits};
  }
};

/// The property of a field, or null and whether it is a message shown inline.
const SchemaProperty* by_number(const Schema& schema, const Place& place, bool& is_inline) {
  const std::uint32_t mask = (1U << place.bits) - 1;
  for (const SchemaProperty& property : schema.properties) {
    if (property.proto == place.prefix) {
      return &property;
    }
    is_inline = is_inline || (property.proto & mask) == place.prefix;
  }
  return nullptr;
}

class MessageDecoder {
 public:
  static Expected<Json> message(const Schema& schema, std::string_view raw, int depth) {
    if (depth > kMaxDepth) {
      return malformed("nested too deeply");
    }
    Json out = Json::object();
    if (auto done = fields(schema, raw, {}, out, depth); !done) {
      return fail(std::move(done).error());
    }
    return out;
  }

 private:
  static Expected<void> fields(const Schema& schema, std::string_view raw, const Place& outside,
                               Json& out, int depth) {
    WireReader reader(raw);
    WireField field;
    while (reader.next(field)) {
      if (field.field == 0 || field.field > kMaxInlineField) {
        continue;
      }
      const Place place = outside.below(field.field);
      bool is_inline = false;
      const SchemaProperty* property = by_number(schema, place, is_inline);
      Expected<void> done;
      if (property != nullptr) {
        done = add(*property->schema, field, out[property->name], depth);
      } else if (is_inline && field.type == WireType::kBytes) {
        done = fields(schema, field.bytes, place, out, depth);
      }
      if (!done) {
        return done;
      }
    }
    return reader.malformed() ? malformed(schema.type_name) : Expected<void>();
  }

  /// Adds one occurrence of a field to what is there already.
  static Expected<void> add(const Schema& schema, const WireField& field, Json& out, int depth) {
    if (schema.form == ScalarForm::kWrappedList) {
      out = Json::array();
      return strings(field, 1, out);
    }
    if (schema.type == SchemaType::kArray) {
      return add_item(*schema.items, field, out, depth);
    }
    if (schema.type == SchemaType::kObject && schema.additional) {
      return add_entry(*schema.additional, field, out, depth);
    }
    auto read = single(schema, field, depth);
    if (!read) {
      return fail(std::move(read).error());
    }
    if (schema.type == SchemaType::kObject && out.is_object()) {
      merge(out, std::move(*read));  // a message sent in pieces
    } else {
      out = std::move(*read);
    }
    return {};
  }

  static void merge(Json& out, Json more) {
    for (JsonMember& member : more.edit_members()) {
      Json& target = out[member.key];
      if (target.is_object() && member.value.is_object()) {
        merge(target, std::move(member.value));
      } else if (target.is_array() && member.value.is_array()) {
        for (Json& item : member.value.edit_items()) {
          target.push_back(std::move(item));
        }
      } else {
        target = std::move(member.value);
      }
    }
  }

  static Expected<void> add_item(const Schema& item, const WireField& field, Json& out, int depth) {
    if (!out.is_array()) {
      out = Json::array();
    }
    const bool numeric = item.type == SchemaType::kInteger || item.type == SchemaType::kBoolean ||
                         item.type == SchemaType::kNumber;
    if (!numeric || field.type != WireType::kBytes) {
      auto read = single(item, field, depth);
      if (!read) {
        return fail(std::move(read).error());
      }
      out.push_back(std::move(*read));
      return {};
    }
    WireReader packed(field.bytes);
    WireField each;
    each.type = item.type == SchemaType::kNumber ? WireType::kFixed64 : WireType::kVarint;
    while (each.type == WireType::kVarint ? packed.next_varint(each.number)
                                          : packed.next_fixed64(each.number)) {
      auto read = single(item, each, depth);
      if (!read) {
        return fail(std::move(read).error());
      }
      out.push_back(std::move(*read));
    }
    return packed.malformed() ? malformed("packed list") : Expected<void>();
  }

  static Expected<void> add_entry(const Schema& value, const WireField& field, Json& out,
                                  int depth) {
    if (field.type != WireType::kBytes) {
      return malformed("map entry");
    }
    if (!out.is_object()) {
      out = Json::object();
    }
    WireReader reader(field.bytes);
    WireField part;
    std::string key;
    Json content;
    bool has_value = false;
    while (reader.next(part)) {
      if (part.field == 1 && part.type == WireType::kBytes) {
        key = part.bytes;
      } else if (part.field == 2) {
        has_value = true;
        if (auto done = add(value, part, content, depth + 1); !done) {
          return done;
        }
      }
    }
    if (reader.malformed() || !is_valid_utf8(key)) {
      return malformed("map entry");
    }
    if (!has_value) {
      WireField nothing;
      nothing.type = WireType::kBytes;
      if (auto done = add(value, nothing, content, depth + 1); !done) {
        return done;
      }
    }
    out[key] = std::move(content);
    return {};
  }

  static Expected<void> strings(const WireField& field, std::uint32_t number, Json& out) {
    if (field.type != WireType::kBytes) {
      return malformed("list of strings");
    }
    WireReader reader(field.bytes);
    WireField part;
    while (reader.next(part)) {
      if (part.field != number) {
        continue;
      }
      if (part.type != WireType::kBytes || !is_valid_utf8(part.bytes)) {
        return malformed("string");
      }
      out.push_back(Json(part.bytes));
    }
    return reader.malformed() ? malformed("list of strings") : Expected<void>();
  }

  static Expected<Json> single(const Schema& schema, const WireField& field, int depth) {
    switch (schema.type) {
      case SchemaType::kBoolean:
      case SchemaType::kInteger:
        if (field.type != WireType::kVarint) {
          return malformed("number");
        }
        if (schema.type == SchemaType::kBoolean) {
          return Json(field.number != 0);
        }
        return Json(schema.format == "int32" ? std::int64_t{static_cast<std::int32_t>(field.number)}
                                             : static_cast<std::int64_t>(field.number));
      case SchemaType::kNumber:
        if (field.type != WireType::kFixed64) {
          return malformed("number");
        }
        if (const double value = std::bit_cast<double>(field.number); std::isfinite(value)) {
          return Json(value);
        }
        return malformed("number, which is not finite");
      default:
        break;
    }
    if (field.type != WireType::kBytes) {
      return malformed("field of bytes");
    }
    if (schema.type == SchemaType::kObject) {
      return message(schema, field.bytes, depth + 1);
    }
    switch (schema.form) {
      case ScalarForm::kBytes:
        return Json(base64_encode(field.bytes));
      case ScalarForm::kTime:
      case ScalarForm::kMicroTime:
        return time(schema.form, field.bytes);
      case ScalarForm::kQuantity:
        return quantity(field.bytes);
      case ScalarForm::kRawObject:
        return raw_json(field.bytes);
      case ScalarForm::kSchemaOrArray:
      case ScalarForm::kSchemaOrBool:
      case ScalarForm::kSchemaOrNames:
        return alternative(schema, field.bytes, depth);
      default:
        if (!is_valid_utf8(field.bytes)) {
          return malformed("string that is not UTF-8");
        }
        return Json(field.bytes);
    }
  }

  static Expected<Json> time(ScalarForm form, std::string_view raw) {
    if (raw.empty()) {
      return Json();
    }
    Instant instant;
    WireReader reader(raw);
    WireField part;
    while (reader.next(part)) {
      if (part.type != WireType::kVarint) {
        continue;
      }
      if (part.field == 1) {
        instant.seconds = static_cast<std::int64_t>(part.number);
      } else if (part.field == 2) {
        instant.nanos = static_cast<std::int32_t>(part.number);
      }
    }
    constexpr std::int64_t kYear9999 = 253'402'300'799;
    if (reader.malformed() || instant.seconds < kGoZeroSeconds || instant.seconds > kYear9999 ||
        instant.nanos < 0 || instant.nanos > 999'999'999) {
      return malformed("time");
    }
    return Json(form == ScalarForm::kTime ? format_time(instant) : format_micro_time(instant));
  }

  static Expected<Json> quantity(std::string_view raw) {
    WireReader reader(raw);
    WireField part;
    std::string_view text = "0";
    while (reader.next(part)) {
      if (part.field == 1 && part.type == WireType::kBytes) {
        text = part.bytes;
      }
    }
    if (reader.malformed()) {
      return malformed("quantity");
    }
    const auto parsed = Quantity::parse(text);
    if (!parsed) {
      return fail(parsed.error().clone());
    }
    return Json(parsed->to_string());
  }

  static Expected<Json> raw_json(std::string_view raw) {
    WireReader reader(raw);
    WireField part;
    std::string_view text;
    while (reader.next(part)) {
      if (part.field == 1 && part.type == WireType::kBytes) {
        text = part.bytes;
      }
    }
    if (reader.malformed()) {
      return malformed("raw JSON");
    }
    if (text.empty()) {
      return Json();
    }
    Json::ParseOptions options;
    options.max_depth = 1'000;
    return Json::parse(text, options);
  }

  static Expected<Json> alternative(const Schema& schema, std::string_view raw, int depth) {
    const bool or_bool = schema.form == ScalarForm::kSchemaOrBool;
    const std::uint32_t schema_field = or_bool ? 2 : 1;
    WireReader reader(raw);
    WireField part;
    Json out = or_bool ? Json(false) : Json::array();
    bool has_schema = false;
    while (reader.next(part)) {
      if (part.field == schema_field && part.type == WireType::kBytes) {
        auto read = message(*schema.items, part.bytes, depth + 1);
        if (!read) {
          return read;
        }
        out = std::move(*read);
        has_schema = true;
      } else if (has_schema) {
        continue;
      } else if (or_bool && part.field == 1 && part.type == WireType::kVarint) {
        out = Json(part.number != 0);
      } else if (part.field == 2 && part.type == WireType::kBytes) {
        if (schema.form == ScalarForm::kSchemaOrNames) {
          if (!is_valid_utf8(part.bytes)) {
            return malformed("string");
          }
          out.push_back(Json(part.bytes));
        } else {
          auto read = message(*schema.items, part.bytes, depth + 1);
          if (!read) {
            return read;
          }
          out.push_back(std::move(*read));
        }
      }
    }
    if (reader.malformed()) {
      return malformed("schema");
    }
    return out;
  }
};

/// The schema of the items of a list kind ("ConfigMapList"), null for everything else.
SchemaPtr item_schema(std::string_view api_version, std::string_view kind) {
  constexpr std::string_view kSuffix = "List";
  if (kind.size() <= kSuffix.size() || !kind.ends_with(kSuffix)) {
    return nullptr;
  }
  return builtin_schema(api_version, kind.substr(0, kind.size() - kSuffix.size()));
}

Expected<Json> decode_list(const Schema& item, std::string_view raw) {
  Json out = Json::object({{"items", Json::array()}, {"metadata", Json::object()}});
  WireReader reader(raw);
  WireField part;
  while (reader.next(part)) {
    if (part.type != WireType::kBytes) {
      continue;
    }
    if (part.field == 1) {
      const SchemaPtr meta = builtin_type("ListMeta");
      auto read = decode_protobuf_message(*meta, part.bytes);
      if (!read) {
        return read;
      }
      out["metadata"] = std::move(*read);
    } else if (part.field == 2) {
      auto read = decode_protobuf_message(item, part.bytes);
      if (!read) {
        return read;
      }
      out["items"].push_back(std::move(*read));
    }
  }
  if (reader.malformed()) {
    return malformed("list");
  }
  return out;
}

}  // namespace

Expected<ProtobufEnvelope> parse_protobuf_envelope(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) {
    return fail(Errc::kBadRequest,
                "provided data does not appear to be a protobuf message, expected prefix [107 56 "
                "115 0]");
  }
  ProtobufEnvelope out;
  WireReader reader(bytes.substr(kMagic.size()));
  WireField field;
  while (reader.next(field)) {
    if (field.type != WireType::kBytes) {
      continue;
    }
    if (field.field == 1) {
      WireReader types(field.bytes);
      WireField part;
      while (types.next(part)) {
        if (part.type == WireType::kBytes && part.field == 1) {
          out.api_version = part.bytes;
        } else if (part.type == WireType::kBytes && part.field == 2) {
          out.kind = part.bytes;
        }
      }
      if (types.malformed()) {
        return malformed("type of the envelope");
      }
    } else if (field.field == 2) {
      out.raw = field.bytes;
    } else if (field.field == 3) {
      out.content_encoding = field.bytes;
    } else if (field.field == 4) {
      out.content_type = field.bytes;
    }
  }
  if (reader.malformed() || !is_valid_utf8(out.api_version) || !is_valid_utf8(out.kind)) {
    return malformed("envelope");
  }
  return out;
}

Expected<Json> decode_protobuf_message(const Schema& schema, std::string_view raw) {
  auto read = MessageDecoder::message(schema, raw, 0);
  if (!read) {
    return read;
  }
  if (auto done = decode_typed(schema, *read); !done) {
    return fail(std::move(done).error());
  }
  return read;
}

Expected<Json> decode_protobuf(std::string_view bytes, std::string_view expect_api_version,
                               std::string_view expect_kind) {
  auto envelope = parse_protobuf_envelope(bytes);
  if (!envelope) {
    return fail(std::move(envelope).error());
  }
  const std::string_view api_version =
      envelope->api_version.empty() ? expect_api_version : envelope->api_version;
  const std::string_view kind = envelope->kind.empty() ? expect_kind : envelope->kind;
  if (!envelope->content_encoding.empty()) {
    return fail(Errc::kBadRequest, "unsupported content encoding of a protobuf envelope");
  }
  Expected<Json> object;
  if (envelope->content_type == "application/json") {
    object = Json::parse(envelope->raw);
  } else if (const SchemaPtr schema = builtin_schema(api_version, kind)) {
    object = decode_protobuf_message(*schema, envelope->raw);
  } else if (const SchemaPtr item = item_schema(api_version, kind)) {
    object = decode_list(*item, envelope->raw);
  } else {
    return fail(Errc::kBadRequest, "no kind \"" + std::string(kind) +
                                       "\" is registered for version \"" +
                                       std::string(api_version) + "\"");
  }
  if (!object) {
    return object;
  }
  if (!object->is_object()) {
    return malformed("object expected");
  }
  (*object)["apiVersion"] = Json(api_version);
  (*object)["kind"] = Json(kind);
  return object;
}

std::optional<std::string> encode_protobuf(const Json& object) {
  std::string_view api_version = object.text({"apiVersion"});
  if (api_version.empty()) {
    api_version = "v1";  // discovery documents of the core group do not say it in JSON
  }
  const std::string_view kind = object.text({"kind"});
  std::string raw;
  if (const SchemaPtr schema = builtin_schema(api_version, kind)) {
    raw = encode_protobuf_message(*schema, object);
  } else if (const SchemaPtr item = item_schema(api_version, kind)) {
    const Json* meta = object.find("metadata");
    put_bytes(raw, 1,
              meta == nullptr ? std::string()
                              : encode_protobuf_message(*builtin_type("ListMeta"), *meta));
    if (const Json* items = object.find("items")) {
      for (const Json& each : items->items()) {
        put_bytes(raw, 2, encode_protobuf_message(*item, each));
      }
    }
  } else {
    return std::nullopt;
  }
  std::string type;
  put_bytes(type, 1, api_version);
  put_bytes(type, 2, kind);
  std::string out(kMagic);
  put_bytes(out, 1, type);
  put_bytes(out, 2, raw);
  put_bytes(out, 3, {});
  put_bytes(out, 4, {});
  return out;
}

std::string protobuf_watch_frame(std::string_view type, std::string_view enveloped) {
  std::string object;
  put_bytes(object, 1, enveloped);
  std::string event;
  put_bytes(event, 1, type);
  put_bytes(event, 2, object);
  const auto size = static_cast<std::uint32_t>(event.size());
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>((size >> shift) & 0xFF));
  }
  return out + event;
}

}  // namespace kintsugi::krm
