#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "krm/formats.h"
#include "krm/internal/field_set.h"
#include "krm/schema_type.h"
#include "krm/status.h"
#include "krm/structural.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::krm {

namespace {

constexpr int kMaxDepth = 500;
constexpr double kMaxJsonInteger = 9'007'199'254'740'991.0;  // 2^53 - 1

/// Compiled patterns of this thread. Patterns come from definitions, so there are few of them.
const re2::RE2& compiled(const std::string& pattern) {
  thread_local std::unordered_map<std::string, std::unique_ptr<re2::RE2>> cache;
  if (cache.size() > 2'000) {
    cache.clear();
  }
  auto& entry = cache[pattern];
  if (entry == nullptr) {
    re2::RE2::Options options;
    options.set_log_errors(false);
    entry = std::make_unique<re2::RE2>(pattern, options);
  }
  return *entry;
}

std::int64_t rune_count(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

/// The JSON type as the schema validator names it.
std::string_view schema_type_of(const Json& value) {
  return value.type() == Json::Type::kDouble || value.type() == Json::Type::kBigNumber
             ? "number"
             : value.type_name();
}

/// The format that the schema validator takes a value for, "" for none.
std::string_view format_of(const Json& value) {
  return value.is_integer() ? "int64" : value.is_number() ? "float64" : "";
}

bool is_whole(const Json& value) {
  const double number = value.as_double();
  return std::fabs(number) <= kMaxJsonInteger && number == std::trunc(number);
}

std::string_view type_text(const Schema& schema) {
  return schema.type == SchemaType::kIntOrString ? "integer,string" : schema_type_name(schema.type);
}

bool type_matches(const Schema& schema, const Json& value) {
  switch (schema.type) {
    case SchemaType::kObject:
      return value.is_object();
    case SchemaType::kArray:
      return value.is_array();
    case SchemaType::kString:
      return value.is_string();
    case SchemaType::kInteger:
      return value.is_integer() || (value.is_number() && is_whole(value));
    case SchemaType::kNumber:
      return value.is_number();
    case SchemaType::kBoolean:
      return value.is_bool();
    case SchemaType::kIntOrString:
      return value.is_string() || value.is_integer() || (value.is_number() && is_whole(value));
    case SchemaType::kAny:
      break;
  }
  return true;
}

std::string go_number(double value) { return Json(value).dump(); }

/// Errors that belong to no field print as "<nil>".
Cause at_no_field(std::string message) {
  return field_invalid("<nil>", Json(""), std::move(message));
}

struct Result {
  std::vector<Cause> causes;
  int checks = 0;  ///< how far a value got into a schema; picks the best failure of anyOf, oneOf

  [[nodiscard]] bool valid() const { return causes.empty(); }
  void merge(Result other) {
    checks += other.checks;
    std::move(other.causes.begin(), other.causes.end(), std::back_inserter(causes));
  }
};

class Validator {
 public:
  /// @param old the value at the same place of the stored object, if there is one to compare with.
  Result visit(const Schema& schema, const Json& value, const std::string& path, const Json* old,
               int depth) {
    Result out;
    if (depth > kMaxDepth) {
      return out;
    }
    type(schema, value, path, out);
    if (!value.is_null()) {
      combinations(schema, value, path, depth, out);
      if (value.is_string()) {
        text(schema, value, path, out);
      } else if (value.is_number()) {
        number(schema, value, path, out);
      } else if (value.is_array()) {
        array(schema, value, path, old, depth, out);
      }
    }
    enumeration(schema, value, path, out);
    if (value.is_object()) {
      object(schema, value, path, old, depth, out);
    }
    if (old != nullptr && !out.valid() && *old == value) {
      out.causes.clear();  // it was invalid before, and nobody touched it
    }
    return out;
  }

 private:
  static std::string in_body(const std::string& path, std::string_view what) {
    return path + " in body " + std::string(what);
  }

  static void type(const Schema& schema, const Json& value, const std::string& path, Result& out) {
    ++out.checks;
    if (schema.type == SchemaType::kAny) {
      return;
    }
    const bool fits = value.is_null() ? schema.nullable : type_matches(schema, value);
    if (fits) {
      return;
    }
    std::string_view wanted = type_text(schema);
    std::string_view actual = value.is_null() ? "null" : schema_type_of(value);
    if (!schema.format.empty() && !value.is_null() && !value.is_string() && !value.is_array() &&
        schema.format != format_of(value)) {
      wanted = schema.format;  // the reference compares formats first
      actual = format_of(value);
    }
    std::string detail = in_body(path, "must be of type ") + std::string(wanted) + ": ";
    append_json_string(detail, actual);
    Cause cause = field_invalid(path, Json(actual), detail);
    cause.reason = "FieldValueTypeInvalid";
    out.causes.push_back(std::move(cause));
  }

  static void text(const Schema& schema, const Json& value, const std::string& path, Result& out) {
    ++out.checks;
    const std::string_view content = value.as_string();
    if (schema.max_length && rune_count(content) > *schema.max_length) {
      out.causes.push_back(field_too_long(path, static_cast<std::size_t>(*schema.max_length)));
    } else if (schema.min_length && rune_count(content) < *schema.min_length) {
      out.causes.push_back(field_invalid(path, value,
                                         in_body(path, "should be at least ") +
                                             std::to_string(*schema.min_length) + " chars long"));
    } else if (!schema.pattern.empty()) {
      const re2::RE2& pattern = compiled(schema.pattern);
      if (!pattern.ok() ||
          !re2::RE2::PartialMatch(re2::StringPiece(content.data(), content.size()), pattern)) {
        out.causes.push_back(
            field_invalid(path, value, in_body(path, "should match '") + schema.pattern + "'"));
      }
    }
    if (!schema.format.empty() && !matches_format(schema.format, content)) {
      std::string detail = in_body(path, "must be of type ") + schema.format + ": ";
      append_json_string(detail, content);
      Cause cause = field_invalid(path, value, detail);
      cause.reason = "FieldValueTypeInvalid";
      out.causes.push_back(std::move(cause));
    }
  }

  static void number(const Schema& schema, const Json& value, const std::string& path,
                     Result& out) {
    ++out.checks;
    range(schema, value, path, out);
    bound(schema, schema.maximum, "Maximum", path, out);
    bound(schema, schema.minimum, "Minimum", path, out);
    if (schema.multiple_of && *schema.multiple_of > 0) {
      const double factor = *schema.multiple_of;
      bool multiple = false;
      if (value.is_integer() && factor == std::trunc(factor) && factor < 9.2e18) {
        multiple = value.as_integer() % static_cast<std::int64_t>(factor) == 0;
      } else {
        const double quotient =
            factor < 1 ? 1 / factor * value.as_double() : value.as_double() / factor;
        multiple = quotient == std::trunc(quotient);
      }
      if (!multiple) {
        out.causes.push_back(field_invalid(
            path, value, in_body(path, "should be a multiple of ") + go_number(factor)));
      }
    }
    if (schema.minimum) {
      const int order = compare(value, *schema.minimum);
      if (order < 0 || (schema.exclusive_minimum && order == 0)) {
        out.causes.push_back(field_invalid(
            path, value,
            in_body(path, schema.exclusive_minimum ? "should be greater than "
                                                   : "should be greater than or equal to ") +
                go_number(*schema.minimum)));
      }
    }
    if (schema.maximum) {
      const int order = compare(value, *schema.maximum);
      if (order > 0 || (schema.exclusive_maximum && order == 0)) {
        out.causes.push_back(field_invalid(
            path, value,
            in_body(path, schema.exclusive_maximum ? "should be less than "
                                                   : "should be less than or equal to ") +
                go_number(*schema.maximum)));
      }
    }
  }

  static int compare(const Json& value, double limit) {
    if (value.is_integer() && limit == std::trunc(limit) && std::fabs(limit) < 9.2e18) {
      const std::int64_t left = value.as_integer();
      const auto right = static_cast<std::int64_t>(limit);
      return left < right ? -1 : left > right ? 1 : 0;
    }
    const double left = value.as_double();
    return left < limit ? -1 : left > limit ? 1 : 0;
  }

  /// A bound that no value of the format can have fails every value.
  static void bound(const Schema& schema, const std::optional<double>& limit, std::string_view name,
                    const std::string& path, Result& out) {
    if (schema.type == SchemaType::kInteger && limit && !fits_integer(*limit, schema.format)) {
      out.causes.push_back(at_no_field(
          std::string(name) + " boundary value must be of type integer " +
          (schema.format.empty() ? "(default format)" : "with format " + schema.format) + " in " +
          path));
    }
  }

  static bool fits_integer(double number, std::string_view format) {
    constexpr double kLimit32 = 2'147'483'648.0, kLimit64 = 9'223'372'036'854'775'808.0;
    const double limit = format == "int32" ? kLimit32 : kLimit64;
    return number == std::trunc(number) && number >= -limit && number < limit;
  }

  static void range(const Schema& schema, const Json& value, const std::string& path, Result& out) {
    if (schema.type == SchemaType::kInteger) {
      const bool small = schema.format == "int32";
      const double number = value.as_double();
      const bool fits =
          (value.is_integer() || (number == std::trunc(number) && std::fabs(number) < 9.2e18)) &&
          (!small || (number >= std::numeric_limits<std::int32_t>::min() &&
                      number <= std::numeric_limits<std::int32_t>::max()));
      if (!fits) {
        const bool named = small || schema.format == "int64";
        out.causes.push_back(
            at_no_field("Checked value must be of type integer " +
                        (named ? "with format " + schema.format : std::string("(default format)")) +
                        " in " + path));
      }
    } else if (schema.type == SchemaType::kNumber && schema.format == "float" &&
               std::fabs(value.as_double()) > std::numeric_limits<float>::max()) {
      out.causes.push_back(
          at_no_field("Checked value must be of type number with format float in " + path));
    }
  }

  void array(const Schema& schema, const Json& value, const std::string& path, const Json* old,
             int depth, Result& out) {
    ++out.checks;
    if (schema.items) {
      const auto twins = items_by_key(schema, old);
      std::size_t index = 0;
      for (const Json& item : value.items()) {
        const Json* twin = nullptr;
        if (!twins.empty()) {
          const auto found = twins.find(list_item_element(schema, item));
          twin = found == twins.end() ? nullptr : found->second;
        }
        out.merge(visit(*schema.items, item, path + '[' + std::to_string(index++) + ']', twin,
                        depth + 1));
      }
    }
    const auto size = static_cast<std::int64_t>(value.size());
    if (schema.min_items && size < *schema.min_items) {
      out.causes.push_back(field_invalid(
          path, Json(size),
          in_body(path, "should have at least ") + std::to_string(*schema.min_items) + " items"));
    }
    if (schema.max_items && size > *schema.max_items) {
      out.causes.push_back(
          field_too_many(path, value.size(), static_cast<std::size_t>(*schema.max_items)));
    }
  }

  static std::map<std::string, const Json*> items_by_key(const Schema& schema, const Json* old) {
    std::map<std::string, const Json*> out;
    if (old != nullptr && schema.list_type == ListType::kMap) {
      for (const Json& item : old->items()) {
        std::string element = list_item_element(schema, item);
        if (!element.empty()) {
          out.emplace(std::move(element), &item);
        }
      }
    }
    return out;
  }

  static void enumeration(const Schema& schema, const Json& value, const std::string& path,
                          Result& out) {
    if (schema.enum_values.empty()) {
      return;
    }
    ++out.checks;
    if (std::find(schema.enum_values.begin(), schema.enum_values.end(), value) !=
        schema.enum_values.end()) {
      return;
    }
    std::vector<std::string> supported;
    for (const Json& each : schema.enum_values) {
      supported.push_back(each.is_string() ? std::string(each.as_string()) : each.dump());
    }
    out.causes.push_back(field_not_supported(path, value, supported));
  }

  void object(const Schema& schema, const Json& value, const std::string& path, const Json* old,
              int depth, Result& out) {
    ++out.checks;
    const auto size = static_cast<std::int64_t>(value.size());
    if (schema.min_properties && size < *schema.min_properties) {
      out.causes.push_back(field_invalid(path, Json(size),
                                         in_body(path, "should have at least ") +
                                             std::to_string(*schema.min_properties) +
                                             " properties"));
    }
    if (schema.max_properties && size > *schema.max_properties) {
      out.causes.push_back(
          field_too_many(path, value.size(), static_cast<std::size_t>(*schema.max_properties)));
    }
    const auto child = [&](std::string_view key) {
      return path.empty() ? std::string(key) : path + '.' + std::string(key);
    };
    for (const JsonMember& member : value.members()) {
      const SchemaProperty* property = schema.property(member.key);
      const Schema* next = property != nullptr ? property->schema.get() : schema.additional.get();
      if (next == nullptr || next == object_meta_schema().get()) {
        continue;
      }
      const Json* twin = old == nullptr ? nullptr : old->find(member.key);
      out.merge(visit(*next, member.value, child(member.key), twin, depth + 1));
    }
    for (const SchemaProperty& property : schema.properties) {
      if (property.required && value.find(property.name) == nullptr) {
        out.causes.push_back(field_required(child(property.name)));
      }
    }
    for (const std::string& name : schema.required_names) {
      if (value.find(name) == nullptr) {
        out.causes.push_back(field_required(child(name)));
      }
    }
  }

  void combinations(const Schema& schema, const Json& value, const std::string& path, int depth,
                    Result& out) {
    const auto quoted = [&] {
      std::string text;
      append_json_string(text, path);
      return text;
    };
    if (!schema.any_of.empty()) {
      Result best;
      const int passed = alternatives(schema.any_of, value, path, depth, true, best);
      if (passed == 0) {
        out.causes.push_back(at_no_field(quoted() + " must validate at least one schema (anyOf)"));
        out.merge(std::move(best));
      }
    }
    if (!schema.one_of.empty()) {
      Result best;
      const int passed = alternatives(schema.one_of, value, path, depth, false, best);
      if (passed != 1) {
        out.causes.push_back(at_no_field(
            quoted() + " must validate one and only one schema (oneOf). Found " +
            (passed == 0 ? "none valid" : std::to_string(passed) + " valid alternatives")));
        if (passed == 0) {
          out.merge(std::move(best));
        }
      }
    }
    std::size_t passed = 0;
    for (const SchemaPtr& part : schema.all_of) {
      Result result = visit(*part, value, path, nullptr, depth + 1);
      passed += result.valid() ? 1U : 0U;
      out.merge(std::move(result));
    }
    if (passed != schema.all_of.size()) {
      out.causes.push_back(at_no_field(quoted() + " must validate all the schemas (allOf)" +
                                       (passed == 0 ? ". None validated" : "")));
    }
    if (schema.negated && visit(*schema.negated, value, path, nullptr, depth + 1).valid()) {
      out.causes.push_back(at_no_field(quoted() + " must not validate the schema (not)"));
    }
  }

  int alternatives(const std::vector<SchemaPtr>& parts, const Json& value, const std::string& path,
                   int depth, bool first_is_enough, Result& best) {
    int passed = 0;
    bool have_best = false;
    for (const SchemaPtr& part : parts) {
      Result result = visit(*part, value, path, nullptr, depth + 1);
      if (result.valid()) {
        ++passed;
        if (first_is_enough) {
          return passed;
        }
      } else if (!have_best || result.checks > best.checks) {
        best = std::move(result);
        have_best = true;
      }
    }
    return passed;
  }
};

}  // namespace

void validate_value(const Schema& schema, const Json& value, std::string_view path,
                    std::vector<Cause>& causes, const Json* old) {
  Result result = Validator().visit(schema, value, std::string(path), old, 0);
  std::move(result.causes.begin(), result.causes.end(), std::back_inserter(causes));
}

}  // namespace kintsugi::krm
