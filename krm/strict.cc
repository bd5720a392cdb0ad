#include "krm/strict.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/strings.h"
#include "krm/go_text.h"
#include "krm/go_value.h"
#include "krm/quantity.h"
#include "krm/strict_time.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::krm {

namespace {

constexpr int kMaxDepth = 400;

std::string go_type_name(const Schema& schema) {
  switch (schema.type) {
    case SchemaType::kString:
      return schema.form == ScalarForm::kBytes ? "[]uint8" : "string";
    case SchemaType::kInteger:
      return schema.format;
    case SchemaType::kNumber:
      return "float64";
    case SchemaType::kBoolean:
      return "bool";
    case SchemaType::kArray:
      return "[]" + (schema.items ? go_type_name(*schema.items) : std::string("string"));
    case SchemaType::kObject:
      if (schema.additional) {
        return "map[string]" + go_type_name(*schema.additional);
      }
      return "v1." + schema.type_name;
    default:
      return "v1.JSON";
  }
}

/// The zero value as Go writes it.
Json zero_of(const Schema& schema) {
  switch (schema.type) {
    case SchemaType::kString:
      return schema.form == ScalarForm::kPlain      ? Json("")
             : schema.form == ScalarForm::kQuantity ? Json("0")
                                                    : Json();
    case SchemaType::kInteger:
    case SchemaType::kNumber:
      return Json(0);
    case SchemaType::kBoolean:
      return Json(false);
    case SchemaType::kObject:
      return schema.additional ? Json() : Json::object();
    default:
      return Json();
  }
}

bool is_empty(const Json& value) {
  switch (value.type()) {
    case Json::Type::kNull:
      return true;
    case Json::Type::kBool:
      return !value.as_bool();
    case Json::Type::kInteger:
    case Json::Type::kDouble:
      return value.as_double() == 0;
    case Json::Type::kString:
      return value.as_string().empty();
    case Json::Type::kArray:
    case Json::Type::kObject:
      return value.size() == 0;
    default:
      return false;
  }
}

bool is_struct(const Schema& schema) {
  return schema.type == SchemaType::kObject && schema.additional == nullptr;
}

class Decoder {
 public:
  Decoder(const Schema& root, std::vector<std::string>* unknown, std::string_view path)
      : inside_(&root), unknown_(unknown), path_(path) {}

  Expected<void> value(const Schema& schema, Json& json, int depth) {
    if (depth > kMaxDepth) {
      return fail(Errc::kBadRequest, "json: exceeded max depth");
    }
    switch (schema.type) {
      case SchemaType::kObject:
        return schema.additional ? map(schema, json, depth) : object(schema, json, depth);
      case SchemaType::kArray:
        return list(schema, json, depth);
      case SchemaType::kAny:
        return free_form(schema, json, depth);
      default:
        return scalar(schema, json);
    }
  }

 private:
  /// In encoding/json's words: the innermost struct, the names of fields down to there without
  /// indexes and keys.
  Expected<void> type_error(const Schema& schema, const Json& json) const {
    std::string text = "json: cannot unmarshal ";
    text += go_json_type(json);
    if (json.is_number() && schema.type == SchemaType::kInteger) {
      text += " " + json.dump();
    }
    text += " into Go ";
    if (fields_.empty()) {
      text += "value";
    } else {
      text += "struct field " + (inside_->type_name.empty() ? "Object" : inside_->type_name) + "." +
              fields_;
    }
    text += " of type " + go_type_name(schema);
    return fail(Errc::kBadRequest, std::move(text));
  }

  Expected<void> object(const Schema& schema, Json& json, int depth) {
    if (json.is_null()) {
      json = Json::object();
    }
    if (!json.is_object()) {
      return type_error(schema, json);
    }
    Json::Object& members = json.edit_members();
    Json::Object kept;
    kept.reserve(members.size());
    auto member = members.begin();
    auto property = schema.properties.begin();
    const std::size_t length = path_.size();
    const std::size_t fields_length = fields_.size();
    const Schema* const outside = std::exchange(inside_, &schema);
    while (member != members.end() || property != schema.properties.end()) {
      const int order = member == members.end()               ? 1
                        : property == schema.properties.end() ? -1
                                                              : member->key.compare(property->name);
      if (order < 0) {
        if (unknown_ != nullptr) {
          unknown_->push_back(path_.empty() ? member->key : path_ + "." + member->key);
        }
        ++member;
        continue;
      }
      Json taken = order == 0 ? std::move(member->value) : Json();
      if (order == 0) {
        ++member;
      }
      if (!path_.empty()) {
        path_ += '.';
      }
      path_ += property->name;
      fields_ += fields_.empty() ? "" : ".";
      fields_ += property->name;
      auto keep = field(*property, taken, depth);
      path_.resize(length);
      fields_.resize(fields_length);
      if (!keep) {
        return fail(std::move(keep).error());
      }
      if (*keep) {
        kept.push_back({property->name, std::move(taken)});
      }
      ++property;
    }
    inside_ = outside;
    members = std::move(kept);
    return {};
  }

  /// Whether the field is written.
  Expected<bool> field(const SchemaProperty& property, Json& json, int depth) {
    const Schema& schema = *property.schema;
    if (json.is_null()) {
      if (!property.always) {
        return false;
      }
      if (property.keep_zero && !(schema.type == SchemaType::kArray)) {
        return true;  // a nil pointer
      }
      json = zero_of(schema);
      if (!json.is_object()) {
        return true;
      }
    }
    if (auto done = value(schema, json, depth + 1); !done) {
      return fail(std::move(done).error());
    }
    if (property.always) {
      if (schema.type == SchemaType::kArray && json.size() == 0 && !property.keep_zero) {
        json = Json();
      }
      return true;
    }
    if (property.keep_zero) {
      return !(json.is_null() && schema.type == SchemaType::kString);
    }
    return !is_empty(json) || (is_struct(schema) && json.is_object());
  }

  Expected<void> map(const Schema& schema, Json& json, int depth) {
    if (json.is_null()) {
      return {};
    }
    if (!json.is_object()) {
      return type_error(schema, json);
    }
    const std::size_t length = path_.size();
    for (JsonMember& member : json.edit_members()) {
      path_ += '.';
      path_ += member.key;
      auto done = element(*schema.additional, member.value, depth);
      path_.resize(length);
      if (!done) {
        return done;
      }
    }
    return {};
  }

  Expected<void> list(const Schema& schema, Json& json, int depth) {
    if (json.is_null()) {
      return {};
    }
    if (!json.is_array()) {
      return type_error(schema, json);
    }
    const std::size_t length = path_.size();
    std::size_t index = 0;
    for (Json& item : json.edit_items()) {
      path_ += '[' + std::to_string(index++) + ']';
      auto done = element(*schema.items, item, depth);
      path_.resize(length);
      if (!done) {
        return done;
      }
    }
    return {};
  }

  Expected<void> element(const Schema& schema, Json& json, int depth) {
    if (json.is_null()) {
      json = schema.form == ScalarForm::kBytes ? Json("") : zero_of(schema);
      if (json.is_null()) {
        return {};
      }
    }
    return value(schema, json, depth + 1);
  }

  Expected<void> free_form(const Schema& schema, Json& json, int depth) {
    if (schema.form == ScalarForm::kPlain || schema.form == ScalarForm::kRawObject ||
        json.is_null()) {
      return {};
    }
    // Go decodes these types by themselves: nobody hears of unknown fields in them.
    std::vector<std::string>* const unknown = std::exchange(unknown_, nullptr);
    Expected<void> done = schema_or_other(schema, json, depth);
    unknown_ = unknown;
    return done;
  }

  Expected<void> schema_or_other(const Schema& schema, Json& json, int depth) {
    const Schema& props = *schema.items;
    if (json.is_object()) {
      return object(props, json, depth + 1);
    }
    if (schema.form == ScalarForm::kSchemaOrBool) {
      if (json.is_bool()) {
        return {};
      }
      return fail(Errc::kBadRequest, "boolean or JSON schema expected");
    }
    if (!json.is_array()) {
      json = Json();  // Go ignores what is neither a schema nor a list
      return {};
    }
    const std::size_t length = path_.size();
    std::size_t index = 0;
    for (Json& item : json.edit_items()) {
      path_ += '[' + std::to_string(index++) + ']';
      Expected<void> done;
      if (schema.form == ScalarForm::kSchemaOrArray) {
        done = element(props, item, depth);
      } else if (item.is_null()) {
        item = Json("");
      } else if (!item.is_string()) {
        done = type_error(schema, item);
      }
      path_.resize(length);
      if (!done) {
        return done;
      }
    }
    return {};
  }

  Expected<void> scalar(const Schema& schema, Json& json) const {
    if (json.is_null()) {
      return {};
    }
    switch (schema.type) {
      case SchemaType::kBoolean:
        return json.is_bool() ? Expected<void>() : type_error(schema, json);
      case SchemaType::kNumber:
        return json.is_number() ? Expected<void>() : type_error(schema, json);
      case SchemaType::kInteger: {
        if (!json.is_integer()) {
          return type_error(schema, json);
        }
        const std::int64_t number = json.as_integer();
        if (schema.format == "int32" && (number < std::numeric_limits<std::int32_t>::min() ||
                                         number > std::numeric_limits<std::int32_t>::max())) {
          return type_error(schema, json);
        }
        return {};
      }
      default:
        return text(schema, json);
    }
  }

  /// Numbers are quantities too, as they are written.
  static Expected<void> quantity(Json& json) {
    const auto parsed =
        Quantity::parse(json.is_string() ? std::string(json.as_string()) : json.dump());
    if (!parsed) {
      return fail(parsed.error().clone());
    }
    json = Json(parsed->to_string());
    return {};
  }

  Expected<void> text(const Schema& schema, Json& json) const {
    if (schema.form == ScalarForm::kQuantity) {
      return quantity(json);
    }
    if (!json.is_string()) {
      return type_error(schema, json);
    }
    const std::string_view given = json.as_string();
    switch (schema.form) {
      case ScalarForm::kBytes: {
        std::string clean(given);
        std::erase_if(clean, [](char c) { return c == '\r' || c == '\n'; });
        const auto bytes = base64_decode(clean);
        if (!bytes) {
          return fail(Errc::kBadRequest, "illegal base64 data at input byte " +
                                             std::to_string(first_bad_base64(clean)));
        }
        json = Json(base64_encode(*bytes));
        return {};
      }
      case ScalarForm::kTime:
      case ScalarForm::kMicroTime: {
        const bool micro = schema.form == ScalarForm::kMicroTime;
        const auto instant = parse_rfc3339(given, micro);
        if (!instant) {
          return fail(Errc::kBadRequest, go_time_error(given, micro));
        }
        if (instant->seconds == kGoZeroSeconds && instant->nanos == 0) {
          json = Json();
        } else {
          json = Json(micro ? format_micro_time(*instant) : format_time(*instant));
        }
        return {};
      }
      default:
        return {};
    }
  }

  static std::size_t first_bad_base64(std::string_view text) {
    const std::size_t bad =
        text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    return bad == std::string_view::npos ? text.size() / 4 * 4 : bad;
  }

  const Schema* inside_;
  std::vector<std::string>* unknown_;
  std::string path_;
  std::string fields_;
};

std::vector<std::string> findings(const std::vector<std::string>& duplicates,
                                  const std::vector<std::string>& unknown) {
  std::vector<std::string> out;
  for (const std::string& path : duplicates) {
    out.push_back("duplicate field " + go_quote(path));
  }
  for (const std::string& path : unknown) {
    out.push_back("unknown field " + go_quote(path));
  }
  return out;
}

}  // namespace

Expected<void> decode_typed(const Schema& schema, Json& value, std::vector<std::string>* unknown,
                            std::string_view path) {
  return Decoder(schema, unknown, path).value(schema, value, 0);
}

std::string strict_error_text(const std::vector<std::string>& duplicates,
                              const std::vector<std::string>& unknown) {
  const auto all = findings(duplicates, unknown);
  return all.empty() ? std::string() : "strict decoding error: " + join(all, ", ");
}

std::vector<std::string> strict_warnings(const std::vector<std::string>& duplicates,
                                         const std::vector<std::string>& unknown) {
  return findings(duplicates, unknown);
}

}  // namespace kintsugi::krm
