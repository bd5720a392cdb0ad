#include "cel/definition.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "cel/internal/call_cost.h"
#include "cel/internal/field_path.h"
#include "cel/internal/program.h"
#include "cel/internal/schema_type.h"
#include "krm/go_value.h"
#include "krm/status.h"
#include "krm/structural.h"

namespace kintsugi::cel {

namespace {

using krm::Json;

constexpr std::string_view kBlanks = " \t\r\n\v\f";
constexpr std::size_t kMaxContributors = 4;

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool has_line_break(std::string_view text) {
  return text.find_first_of("\n\r") != std::string_view::npos;
}

std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > kUnlimited / b ? kUnlimited : a * b;
}

/// A rule as Go prints its struct in errors.
std::string rule_value(const krm::Schema::Rule& rule, const Json& json) {
  const Json* optional = json.find("optionalOldSelf");
  const auto text = [](const std::string& value) { return krm::go_json_text(Json(value)); };
  return "{\"Rule\":" + text(rule.rule) + ",\"Message\":" + text(rule.message) +
         ",\"MessageExpression\":" + text(rule.message_expression) +
         ",\"Reason\":" + (rule.reason.empty() ? "null" : text(rule.reason)) +
         ",\"FieldPath\":" + text(rule.field_path) +
         ",\"OptionalOldSelf\":" + (optional == nullptr ? "null" : optional->dump()) + '}';
}

std::string cost_message(std::string_view what, std::uint64_t cost, std::uint64_t limit) {
  const double factor = static_cast<double>(cost) / static_cast<double>(limit);
  char text[64];
  std::snprintf(text, sizeof(text), factor < 1.5 ? "%fx" : "%.1fx", factor);
  return std::string(what) + " exceeds budget by factor of " +
         (factor > 100 ? "more than 100x" : text) +
         " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where "
         "arrays, maps, and strings are declared)";
}

class Checker {
 public:
  Checker(bool compile, std::vector<Cause>& causes) : compile_(compile), causes_(causes) {}

  struct Place {
    std::string path;
    const Declaration* declaration = nullptr;
    std::optional<std::uint64_t> repeats = 1;  ///< of the value in one object; none: unbounded
    std::string uncorrelated;                  ///< the first list whose items have no old value
  };

  void visit(const Json& json, const krm::Schema& schema, const Place& place) {
    std::optional<std::uint64_t> below = place.repeats;
    const auto times = [&](const std::optional<std::int64_t>& limit) {
      if (below && limit) {
        below = multiply(*below, static_cast<std::uint64_t>(std::max<std::int64_t>(*limit, 0)));
      } else {
        below.reset();
      }
    };
    const Declaration* element =
        place.declaration == nullptr ? nullptr : place.declaration->element.get();
    if (const Json* values = json.find("additionalProperties");
        values != nullptr && values->is_object() && schema.additional) {
      times(schema.max_properties);
      visit(*values, *schema.additional,
            {place.path + ".additionalProperties", element, below, place.uncorrelated});
    }
    if (const Json* properties = json.find("properties")) {
      for (const krm::JsonMember& member : properties->members()) {
        if (const krm::SchemaProperty* property = schema.property(member.key)) {
          visit(
              member.value, *property->schema,
              {place.path + ".properties[" + member.key + ']',
               field(place.declaration, member.key, *property->schema), below, place.uncorrelated});
        }
      }
    }
    if (const Json* items = json.find("items");
        items != nullptr && items->is_object() && schema.items) {
      times(schema.max_items);
      const bool correlated = schema.list_type == krm::ListType::kMap;
      visit(*items, *schema.items,
            {place.path + ".items", element, below, correlated ? place.uncorrelated : place.path});
    }
    if (const Json* branches = json.find("allOf")) {
      for (std::size_t i = 0; i < branches->items().size() && i < schema.all_of.size(); ++i) {
        Place branch = place;
        branch.path += ".allOf[" + std::to_string(i) + ']';
        check_rules(branches->items()[i], *schema.all_of[i], schema, branch);
      }
    }
    check_rules(json, schema, schema, place);
  }

  void finish(const std::string& path) {
    std::move(late_.begin(), late_.end(), std::back_inserter(causes_));
    if (total_ <= kSchemaEstimateLimit) {
      return;
    }
    std::stable_sort(contributors_.begin(), contributors_.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    contributors_.resize(std::min(contributors_.size(), kMaxContributors));
    for (auto& [field, cost] : contributors_) {
      causes_.push_back(krm::field_forbidden(
          field,
          "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 "
          "schema"));
    }
    causes_.push_back(krm::field_forbidden(
        path, cost_message("x-kubernetes-validations estimated rule cost total for entire "
                           "OpenAPIv3 schema",
                           total_, kSchemaEstimateLimit)));
  }

 private:
  const Declaration* field(const Declaration* owner, const std::string& name,
                           const krm::Schema& schema) {
    std::string escaped;
    if (owner != nullptr && escape_name(name, escaped)) {
      const auto found = owner->fields.find(escaped);
      if (found != owner->fields.end()) {
        return found->second.get();
      }
    }
    made_.push_back(declare(schema, schema.embedded_resource));
    return made_.back().get();
  }

  void check_rules(const Json& json, const krm::Schema& rules, const krm::Schema& schema,
                   const Place& place) {
    const Json* given = json.find("x-kubernetes-validations");
    for (std::size_t i = 0; i < rules.rules.size(); ++i) {
      check_texts(rules.rules[i], given->items()[i], schema, rule_path(place, i));
    }
    if (!compile_ || rules.rules.empty() || is_faulty(place.path)) {
      return;
    }
    for (std::size_t i = 0; i < rules.rules.size(); ++i) {
      check_rule(rules.rules[i], given->items()[i], place, rule_path(place, i));
    }
  }

  /// Something is wrong with this part of the schema or with a deeper one.
  bool is_faulty(std::string_view path) const {
    return std::any_of(causes_.begin(), causes_.end(), [&](const Cause& cause) {
      const std::string_view field = cause.field;
      return field.starts_with(path) && (field.size() == path.size() || field[path.size()] == '.' ||
                                         field[path.size()] == '[');
    });
  }

  static std::string rule_path(const Place& place, std::size_t index) {
    return place.path + ".x-kubernetes-validations[" + std::to_string(index) + ']';
  }

  void check_texts(const krm::Schema::Rule& rule, const Json& json, const krm::Schema& schema,
                   const std::string& path) {
    const std::string_view text = trim(rule.rule);
    const std::string_view message = trim(rule.message);
    const auto invalid = [&](const char* field, const std::string& value, const char* detail) {
      causes_.push_back(krm::field_invalid(path + field, Json(value), detail));
    };
    if (text.empty()) {
      causes_.push_back(krm::field_required(path + ".rule", "rule is not specified"));
    } else if (!rule.message.empty() && message.empty()) {
      invalid(".message", rule.message, "must be non-empty if specified");
    } else if (has_line_break(message)) {
      invalid(".message", rule.message, "must not contain line breaks");
    } else if (has_line_break(text) && message.empty()) {
      causes_.push_back(krm::field_required(
          path + ".message", "message must be specified if rule contains line breaks"));
    }
    if (!rule.message_expression.empty() && trim(rule.message_expression).empty()) {
      causes_.push_back(krm::field_required(path + ".messageExpression",
                                            "messageExpression must be non-empty if specified"));
    }
    static const std::vector<std::string>& reasons = *new std::vector<std::string>{
        "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"};
    const Json* reason = json.find("reason");
    if (reason != nullptr && !reason->is_null() &&
        std::find(reasons.begin(), reasons.end(), rule.reason) == reasons.end()) {
      causes_.push_back(krm::field_not_supported(path + ".reason", Json(rule.reason), reasons));
    }
    if (rule.field_path.empty()) {
      return;
    }
    if (trim(rule.field_path).empty()) {
      invalid(".fieldPath", rule.field_path, "must be non-empty if specified");
    }
    if (has_line_break(rule.field_path)) {
      invalid(".fieldPath", rule.field_path, "must not contain line breaks");
    }
    if (!field_path(rule.field_path, schema)) {
      invalid(".fieldPath", rule.field_path, "must be a valid path");
    }
  }

  void check_rule(const krm::Schema::Rule& rule, const Json& json, const Place& place,
                  const std::string& path) {
    if (place.declaration == nullptr) {
      late_.push_back({"InternalError",
                       "Internal error: internal error: failed to construct type information for "
                       "x-kubernetes-validations rules: unable to convert structural schema to CEL "
                       "declarations",
                       path.substr(0, path.rfind('['))});
      return;
    }
    const auto refuse = [&](const char* field, const std::string& detail) {
      late_.push_back({"FieldValueInvalid",
                       "Invalid value: " + rule_value(rule, json) + ": " + detail, path + field});
    };
    const Compilation compiled =
        compile(rule.rule, *place.declaration, rule.optional_old_self, TypeKind::kBool);
    if (!compiled.program) {
      refuse(".rule", compiled.error);
      return;
    }
    const std::uint64_t repeats =
        place.repeats ? *place.repeats
                      : static_cast<std::uint64_t>(kMaxRequest / (place.declaration->min_size + 1));
    charge(path + ".rule", "estimated rule cost", multiply(compiled.program->max_cost, repeats));
    if (!rule.message_expression.empty()) {
      const Compilation message = compile(rule.message_expression, *place.declaration,
                                          rule.optional_old_self, TypeKind::kString);
      if (message.program) {
        charge(path + ".messageExpression", "estimated messageExpression cost",
               message.program->max_cost);
      } else {
        refuse(".messageExpression", message.error);
      }
    }
    if (compiled.program->uses_old_self) {
      if (!place.uncorrelated.empty()) {
        late_.push_back(krm::field_invalid(
            path + ".rule", Json(rule.rule),
            "oldSelf cannot be used on the uncorrelatable portion of the schema within " +
                place.uncorrelated));
      }
    } else if (const Json* optional = json.find("optionalOldSelf");
               optional != nullptr && !optional->is_null()) {
      late_.push_back(krm::field_invalid(path + ".optionalOldSelf", *optional,
                                         "may not be set if oldSelf is not used in rule"));
    }
  }

  void charge(const std::string& field, std::string_view what, std::uint64_t cost) {
    if (cost > kRuleEstimateLimit) {
      late_.push_back(krm::field_forbidden(field, cost_message(what, cost, kRuleEstimateLimit)));
    }
    total_ = total_ > kUnlimited - cost ? kUnlimited : total_ + cost;
    if (cost >= kSchemaEstimateLimit / 100) {
      contributors_.emplace_back(field, cost);
    }
  }

  bool compile_;
  std::vector<Cause>& causes_;
  std::vector<Cause> late_;  ///< of expressions: behind those of texts
  std::uint64_t total_ = 0;
  std::vector<std::pair<std::string, std::uint64_t>> contributors_;
  std::vector<DeclarationPtr> made_;
};

}  // namespace

void check_definition_rules(const krm::Json& schema, std::string_view path, bool compile,
                            const krm::Json* old, std::vector<Cause>& causes) {
  if (old != nullptr && schema == *old) {
    return;
  }
  const krm::SchemaPtr structural = krm::structural_schema(schema, false);
  if (structural == nullptr || !krm::has_rules(*structural)) {
    return;
  }
  const DeclarationPtr root = declare(*structural, true);
  Checker checker(compile, causes);
  checker.visit(schema, *structural, {std::string(path), root.get(), 1, {}});
  checker.finish(std::string(path));
}

}  // namespace kintsugi::cel
