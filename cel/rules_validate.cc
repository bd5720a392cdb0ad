#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cel/internal/rule_set.h"
#include "krm/status.h"

namespace kintsugi::cel {

namespace {

using krm::Json;

constexpr std::size_t kMaxMessage = 5 * 1024;

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n\v\f");
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(" \t\r\n\v\f") - begin + 1);
}

/// How a failed rule is named in errors.
std::string rule_text(const krm::Schema::Rule& rule) {
  return std::string(trim(rule.message.empty() ? rule.rule : rule.message));
}

/// The stored counterpart of a value, for accepting what was wrong before (AM-395).
struct Counterpart {
  const Json* now = nullptr;  ///< with `before`: the value itself has a counterpart
  const Json* before = nullptr;
  const Json* parent_now = nullptr;  ///< the nearest ancestor that has one
  const Json* parent_before = nullptr;

  [[nodiscard]] bool unchanged() const {
    return before != nullptr ? *now == *before
                             : parent_before != nullptr && *parent_now == *parent_before;
  }
  [[nodiscard]] Counterpart child(const Json& value, const Json* old) const {
    if (before == nullptr) {
      return {nullptr, nullptr, parent_now, parent_before};
    }
    return {&value, old, now, before};
  }
};

class Validator {
 public:
  Validator(std::vector<Cause>& causes, std::vector<std::string>* warnings, std::uint64_t budget,
            std::uint64_t call_limit = kCallLimit)
      : causes_(causes), warnings_(warnings), call_limit_(call_limit), budget_(budget) {}

  void visit(const RuleNode& node, const std::string& path, const Json& value, const Json* old,
             const Counterpart& counterpart) {
    if (value.is_null() || stopped_) {
      return;
    }
    evaluate_rules(node, path, value, old, counterpart);
    for (const auto& branch : node.all_of) {
      const Counterpart above{nullptr, nullptr, counterpart.parent_now, counterpart.parent_before};
      visit(*branch, path, value, old, above);
    }
    if (value.is_array() && node.items) {
      visit_items(node, path, value, old, counterpart);
    } else if (value.is_object()) {
      visit_members(node, path, value, old, counterpart);
    }
  }

  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] std::uint64_t budget() const { return budget_; }

 private:
  void visit_members(const RuleNode& node, const std::string& path, const Json& value,
                     const Json* old, const Counterpart& counterpart) {
    for (const krm::JsonMember& member : value.members()) {
      const Json* before = old == nullptr ? nullptr : old->find(member.key);
      const auto property = node.properties.find(member.key);
      if (property != node.properties.end()) {
        std::string here = path.empty() ? member.key : path + '.' + member.key;
        visit(*property->second, here, member.value, before,
              counterpart.child(member.value, before));
      } else if (node.additional) {
        visit(*node.additional, path + '[' + member.key + ']', member.value, before,
              counterpart.child(member.value, before));
      }
    }
  }

  void visit_items(const RuleNode& node, const std::string& path, const Json& value,
                   const Json* old, const Counterpart& counterpart) {
    const std::vector<std::string>& keys = node.schema->list_map_keys;
    std::map<std::string, const Json*> before;
    const bool by_key = node.schema->list_type == krm::ListType::kMap && old != nullptr;
    // An item that lacks a key has no counterpart, whatever its default would be.
    const auto key_of = [&](const Json& item) -> std::optional<std::string> {
      std::string out;
      for (const std::string& key : keys) {
        const Json* part = item.find(key);
        if (part == nullptr || part->is_null()) {
          return std::nullopt;
        }
        out += part->dump() + '\n';
      }
      return out;
    };
    if (by_key) {
      for (const Json& item : old->items()) {
        if (std::optional<std::string> key = key_of(item)) {
          before.emplace(std::move(*key), &item);
        }
      }
    }
    for (std::size_t i = 0; i < value.items().size() && !stopped_; ++i) {
      const Json& item = value.items()[i];
      const std::optional<std::string> key = by_key ? key_of(item) : std::nullopt;
      const auto found = key ? before.find(*key) : before.end();
      const Json* old_item = found == before.end() ? nullptr : found->second;
      visit(*node.items, path + '[' + std::to_string(i) + ']', item, old_item,
            counterpart.child(item, old_item));
    }
  }

  static std::string named(const std::string& path) { return path.empty() ? "<nil>" : path; }

  void stop(const RuleNode& node, const std::string& path, const std::string& detail) {
    causes_.push_back(krm::field_invalid(named(path), Json(node.type), detail));
    stopped_ = true;
  }

  void evaluate_rules(const RuleNode& node, const std::string& path, const Json& value,
                      const Json* old, const Counterpart& counterpart) {
    if (node.rules.empty()) {
      return;
    }
    if (budget_ == 0) {
      stop(node, path,
           "validation failed due to running out of cost budget, no further validation rules will "
           "be run");
      return;
    }
    const Value self = Value::from_json(value, *node.schema);
    const bool has_old = old != nullptr && !old->is_null();
    const std::optional<Value> old_self =
        has_old ? std::optional(Value::from_json(*old, *node.schema)) : std::nullopt;
    for (const CompiledRule& compiled : node.rules) {
      const krm::Schema::Rule& rule = *compiled.rule;
      if (!compiled.error.empty()) {
        causes_.push_back(krm::field_invalid(named(path), Json(node.type),
                                             "rule compile error: " + compiled.error));
        continue;
      }
      if (!compiled.program ||
          (compiled.program->uses_old_self && !has_old && !rule.optional_old_self)) {
        continue;
      }
      std::optional<Value> before = old_self;
      if (rule.optional_old_self) {
        before = old_self ? Value::optional(*old_self) : Value::none();
      }
      const Evaluation result = compiled.program->run(self, before, call_limit_, budget_);
      if (!spend(node, path, result.charge)) {
        return;
      }
      if (result.value.is_error()) {
        if (!explain_error(node, path, rule, result)) {
          return;
        }
      } else if (!result.value.is_true()) {
        report(node, path, value, compiled, self, old_self, counterpart);
        if (stopped_) {
          return;
        }
      }
    }
  }

  bool spend(const RuleNode& node, const std::string& path, std::uint64_t charge) {
    if (charge > budget_) {
      stop(node, path,
           "validation failed due to running out of cost budget, no further validation rules will "
           "be run");
      return false;
    }
    budget_ -= charge;
    return true;
  }

  /// False: no further rules.
  bool explain_error(const RuleNode& node, const std::string& path, const krm::Schema::Rule& rule,
                     const Evaluation& result) {
    const std::string error(result.value.text());
    if (result.exceeded) {
      stop(node, path,
           "'" + error +
               "': no further validation rules will be run due to call cost exceeds limit for "
               "rule: " +
               rule_text(rule));
      return false;
    }
    std::string detail = error + " evaluating rule: " + rule_text(rule);
    if (error.starts_with("no such overload")) {
      detail = "'" + error +
               "': call arguments did not match a supported operator, function or macro signature "
               "for rule: " +
               rule_text(rule);
    }
    causes_.push_back(krm::field_invalid(named(path), Json(node.type), detail));
    return true;
  }

  void report(const RuleNode& node, const std::string& path, const Json& value,
              const CompiledRule& compiled, const Value& self, const std::optional<Value>& old_self,
              const Counterpart& counterpart) {
    const krm::Schema::Rule& rule = *compiled.rule;
    std::string detail;
    if (compiled.message) {
      const Evaluation made = compiled.message->run(self, old_self, call_limit_, budget_);
      if (made.exceeded || made.charge > budget_) {
        stop(node, path,
             made.exceeded && made.charge <= budget_
                 ? "no further validation rules will be run due to call cost exceeds limit for "
                   "messageExpression: " +
                       Json(rule.message_expression).dump()
                 : "messageExpression evaluation failed due to running out of cost budget, no "
                   "further validation rules will be run");
        return;
      }
      budget_ -= made.charge;
      const std::string_view text = trim(made.value.text());
      if (made.value.is(Kind::kString) && text.size() <= kMaxMessage &&
          text.find('\n') == std::string_view::npos) {
        detail = text;
      }
    }
    if (detail.empty()) {
      detail = rule.message.empty() ? "failed rule: " + rule_text(rule)
                                    : std::string(trim(rule.message));
    }
    std::string field = path;
    if (!compiled.field_path.empty()) {
      field += (path.empty() ? "" : ".") + compiled.field_path;
    }
    Cause cause = cause_of(node, named(field), value, rule.reason, detail);
    if (!compiled.program->uses_old_self && counterpart.unchanged()) {
      if (warnings_ != nullptr) {
        warnings_->push_back(cause.field + ": " + cause.message);
      }
      return;
    }
    causes_.push_back(std::move(cause));
  }

  static Cause cause_of(const RuleNode& node, std::string field, const Json& value,
                        std::string_view reason, const std::string& detail) {
    const bool omit = node.type == "object" || node.type == "array";
    if (reason == "FieldValueForbidden") {
      return krm::field_forbidden(std::move(field), detail);
    }
    if (reason == "FieldValueRequired") {
      return krm::field_required(std::move(field), detail);
    }
    if (reason == "FieldValueDuplicate") {
      return omit ? Cause{"FieldValueDuplicate", "Duplicate value", std::move(field)}
                  : krm::field_duplicate(std::move(field), value);
    }
    return omit ? Cause{"FieldValueInvalid", "Invalid value: " + detail, std::move(field)}
                : krm::field_invalid(std::move(field), value, detail);
  }

  std::vector<Cause>& causes_;
  std::vector<std::string>* warnings_;
  const std::uint64_t call_limit_;
  std::uint64_t budget_;
  bool stopped_ = false;
};

}  // namespace

namespace {

/// False: more than the budget would be needed; what was received is not all.
bool validate_within(std::uint64_t budget, const RuleSet& rules, const Json& object,
                     const Json* old, std::vector<Cause>& causes,
                     std::vector<std::string>* warnings) {
  Counterpart counterpart;
  if (old != nullptr) {
    counterpart.now = &object;
    counterpart.before = old;
  }
  Validator validator(causes, warnings, budget, std::min(kCallLimit, budget));
  validator.visit(*rules.root, {}, object, old, counterpart);
  return !validator.stopped();
}

}  // namespace

void validate_rules(const RuleSet& rules, const krm::Json& object, const krm::Json* old,
                    std::vector<Cause>& causes, std::vector<std::string>* warnings) {
  static_cast<void>(validate_within(kObjectLimit, rules, object, old, causes, warnings));
}

bool try_rules(const RuleSet& rules, const krm::Json& object, const krm::Json* old,
               std::vector<Cause>& causes, std::vector<std::string>& warnings) {
  const std::size_t before = causes.size(), told = warnings.size();
  if (validate_within(kLoopLimit, rules, object, old, causes, &warnings)) {
    return true;
  }
  causes.resize(before);
  warnings.resize(told);
  return false;
}

bool validate_node(const RuleNode& node, const std::string& path, const krm::Json& value,
                   const krm::Json* old, std::uint64_t& budget, std::vector<Cause>& causes) {
  Validator validator(causes, nullptr, budget);
  validator.visit(node, path, value, old, {});
  budget = validator.budget();
  return !validator.stopped();
}

}  // namespace kintsugi::cel
