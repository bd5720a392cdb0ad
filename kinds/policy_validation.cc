#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cel/admission.h"
#include "kinds/common.h"
#include "krm/names.h"
#include "krm/status.h"

namespace kintsugi::kinds {

namespace {

using cel::ResultType;
using krm::Json;
using Texts = std::vector<std::string>;

constexpr std::size_t kMaxConditions = 64;
constexpr std::size_t kMaxAnnotations = 20;
constexpr std::size_t kMaxValueExpression = 5 * 1024;
constexpr std::string_view kOneNeeded =
    "validations or auditAnnotations must contain at least one item";

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

const Json::Array& items(const Json& object, std::string_view member) {
  static const Json::Array& none = *new Json::Array;
  const Json* list = object.find(member);
  return list == nullptr ? none : list->items();
}

const Json& spec_of(const Json& object) {
  static const Json& none = *new Json;
  const Json* spec = object.find("spec");
  return spec == nullptr ? none : *spec;
}

std::string at(const std::string& field, std::size_t index) {
  return field + '[' + std::to_string(index) + ']';
}

bool is_one_of(const Texts& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

std::string joined(const krm::Messages& messages) {
  std::string out;
  for (const std::string& each : messages) {
    out += (out.empty() ? "" : ",") + each;
  }
  return out;
}

/// A variable's name as CEL can say it.
bool is_identifier(std::string_view name) {
  static const Texts& reserved =
      *new Texts{"true",     "false",   "null",      "in",       "as",  "break",  "const",
                 "continue", "else",    "for",       "function", "if",  "import", "let",
                 "loop",     "package", "namespace", "return",   "var", "void",   "while"};
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && is_letter(name[0]) && !is_one_of(reserved, name) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

void check_param_kind(const Json& kind, std::vector<Cause>& causes) {
  const std::string_view api_version = kind.text({"apiVersion"});
  const std::string field = "spec.paramKind.apiVersion";
  const auto invalid = [&](std::string_view value, std::string_view detail) {
    causes.push_back(krm::field_invalid(field, Json(value), detail));
  };
  const std::size_t slash = api_version.find('/');
  if (api_version.empty()) {
    causes.push_back(krm::field_required(field));
  } else if (std::count(api_version.begin(), api_version.end(), '/') > 1) {
    invalid(api_version, "unexpected GroupVersion string: " + std::string(api_version));
  } else {
    const std::string_view group =
        slash == std::string_view::npos ? "" : api_version.substr(0, slash);
    const std::string_view version =
        slash == std::string_view::npos ? api_version : api_version.substr(slash + 1);
    if (!group.empty()) {
      if (const krm::Messages faults = krm::check_dns1123_subdomain(group); !faults.empty()) {
        invalid(group, joined(faults));
      }
    }
    if (version.empty()) {
      invalid(api_version, "version must be specified");
    } else if (const krm::Messages faults = krm::check_dns1035_label(version); !faults.empty()) {
      invalid(version, joined(faults));
    }
  }
  const std::string_view name = kind.text({"kind"});
  if (name.empty()) {
    causes.push_back(krm::field_required("spec.paramKind.kind"));
  } else if (const krm::Messages faults = krm::check_dns1035_label(to_lower(name));
             !faults.empty()) {
    causes.push_back(
        krm::field_invalid("spec.paramKind.kind", Json(name),
                           "may have mixed case, but should otherwise match: " + joined(faults)));
  }
}

/// The expressions of one policy, compiled in their order.
class ExpressionCheck {
 public:
  ExpressionCheck(const Json& spec, std::vector<Cause>& causes)
      : causes_(causes),
        has_params_(is_set(spec, "paramKind")),
        environment_(!items(spec, "variables").empty()) {}

  void variable(const Json& variable, const std::string& field) {
    const std::string_view name = variable.text({"name"});
    if (trim(name).empty()) {
      causes_.push_back(krm::field_required(field + ".name", "name is not specified"));
    } else if (!is_identifier(name)) {
      causes_.push_back(
          krm::field_invalid(field + ".name", Json(name), "must be a valid CEL identifier"));
    }
    const std::string_view text = variable.text({"expression"});
    if (trim(text).empty()) {
      causes_.push_back(krm::field_required(field + ".expression", "expression is not specified"));
      return;
    }
    const auto fault = environment_.add_variable(name, text, {has_params_, true});
    if (fault != nullptr) {
      report(field + ".expression", text, *fault);
    }
  }

  void condition(const Json& condition, const std::string& field) {
    const std::string_view text = trim(condition.text({"expression"}));
    if (text.empty()) {
      causes_.push_back(krm::field_required(field + ".expression"));
    } else {
      compile(plain_, text, text, ResultType::kBool, true, field + ".expression");
    }
    const std::string_view name = condition.text({"name"});
    if (name.empty()) {
      causes_.push_back(krm::field_required(field + ".name"));
      return;
    }
    for (const std::string& fault : krm::check_qualified_name(name)) {
      causes_.push_back(krm::field_invalid(field + ".name", Json(name), fault));
    }
  }

  void validation(const Json& validation, const std::string& field) {
    const std::string_view text = validation.text({"expression"});
    if (trim(text).empty()) {
      causes_.push_back(krm::field_required(field + ".expression", "expression is not specified"));
    } else {
      compile(environment_, text, text, ResultType::kBool, true, field + ".expression");
    }
    const std::string_view message_text = validation.text({"messageExpression"});
    if (!message_text.empty() && trim(message_text).empty()) {
      causes_.push_back(krm::field_invalid(field + ".messageExpression", Json(message_text),
                                           "must be non-empty if specified"));
    } else if (!message_text.empty()) {
      compile(environment_, message_text, message_text, ResultType::kString, false,
              field + ".messageExpression");
    }
    const std::string_view message = validation.text({"message"});
    if (!message.empty() && trim(message).empty()) {
      causes_.push_back(
          krm::field_invalid(field + ".message", Json(message), "must be non-empty if specified"));
    } else if (trim(message).find_first_of("\n\r") != std::string_view::npos) {
      causes_.push_back(
          krm::field_invalid(field + ".message", Json(message), "must not contain line breaks"));
    }
    static const Texts& reasons = *new Texts{"Forbidden", "Invalid", "RequestEntityTooLarge"};
    const Json* reason = validation.find("reason");
    if (reason != nullptr && !reason->is_null() && !is_one_of(reasons, reason->as_string())) {
      causes_.push_back(krm::field_not_supported(field + ".reason", *reason, reasons));
    }
  }

  void mutation(const Json& mutation, const std::string& field) {
    static const Texts& types = *new Texts{"ApplyConfiguration", "JSONPatch"};
    const std::string_view type = mutation.text({"patchType"});
    const bool patch = type == "JSONPatch";
    if (type.empty()) {
      causes_.push_back(krm::field_required(field + ".patchType"));
      return;
    }
    if (!is_one_of(types, type)) {
      causes_.push_back(krm::field_not_supported(field + ".patchType", Json(type), types));
      return;
    }
    const std::string own = patch ? "jsonPatch" : "applyConfiguration";
    const std::string other = patch ? "applyConfiguration" : "jsonPatch";
    if (!is_set(mutation, own)) {
      causes_.push_back(krm::field_required(
          field + "." + own, "must be specified when patchType is " + std::string(type)));
    } else if (const std::string_view text = trim(mutation.text({own, "expression"}));
               text.empty()) {
      causes_.push_back(krm::field_required(field + "." + own + ".expression"));
    } else {
      compile(environment_, text, text, patch ? ResultType::kPatch : ResultType::kObject, true,
              field + "." + own + ".expression");
    }
    if (is_set(mutation, other)) {
      causes_.push_back(
          krm::field_invalid(field + "." + other, Json("{" + other + "}"),
                             "must not be specified when patchType is " + std::string(type)));
    }
  }

  void annotation(const Json& annotation, const std::string& policy, const std::string& field) {
    const std::string key(annotation.text({"key"}));
    if (policy.empty()) {
      causes_.push_back(
          krm::field_invalid(field + ".key", Json(key), "requires metadata.name be non-empty"));
    } else {
      const std::string whole = policy + "/" + key;
      for (const std::string& fault : krm::check_qualified_name(whole)) {
        causes_.push_back(krm::field_invalid(field + ".key", Json(whole), fault));
      }
    }
    const std::string_view given = annotation.text({"valueExpression"});
    const std::string_view text = trim(given);
    const std::string place = field + ".valueExpression";
    if (text.empty()) {
      causes_.push_back(krm::field_required(place, "valueExpression is not specified"));
    } else if (text.size() > kMaxValueExpression) {
      causes_.push_back(krm::field_required(
          place, "must not exceed " + std::to_string(kMaxValueExpression) + " bytes in length"));
    } else {
      compile(environment_, text, given, ResultType::kStringOrNull, true, place);
    }
  }

 private:
  void report(const std::string& field, std::string_view shown, const cel::ExpressionFault& fault) {
    if (fault.internal) {
      causes_.push_back({"InternalError", "Internal error: " + fault.detail, field});
    } else {
      causes_.push_back(krm::field_invalid(field, Json(shown), fault.detail));
    }
  }

  void compile(const cel::AdmissionEnvironment& environment, std::string_view text,
               std::string_view shown, ResultType type, bool authorizer, const std::string& field) {
    cel::ExpressionFault fault;
    if (environment.compile(text, type, {has_params_, authorizer}, fault) == nullptr) {
      report(field, shown, fault);
    }
  }

  std::vector<Cause>& causes_;
  bool has_params_;
  cel::AdmissionEnvironment environment_;
  cel::AdmissionEnvironment plain_{false};  ///< match conditions know no variables
};

void check_conditions(const Json::Array& list, const std::string& field,
                      ExpressionCheck& expressions, std::vector<Cause>& causes) {
  if (list.size() > kMaxConditions) {
    causes.push_back(krm::field_too_many(field, list.size(), kMaxConditions));
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < list.size(); ++i) {
    expressions.condition(list[i], at(field, i));
    const std::string name(list[i].text({"name"}));
    if (!name.empty() && !names.insert(name).second) {
      causes.push_back(krm::field_duplicate(at(field, i) + ".name", Json(name)));
    }
  }
}

void check_annotations(const Json& policy, ExpressionCheck& expressions,
                       std::vector<Cause>& causes) {
  const Json& spec = spec_of(policy);
  const Json::Array& list = items(spec, "auditAnnotations");
  const std::string field = "spec.auditAnnotations";
  if (list.size() > kMaxAnnotations) {
    causes.push_back(krm::field_invalid(
        field, *spec.find("auditAnnotations"),
        "must not have more than " + std::to_string(kMaxAnnotations) + " auditAnnotations"));
  }
  const std::string name(policy.text({"metadata", "name"}));
  std::set<std::string> keys;
  for (std::size_t i = 0; i < list.size(); ++i) {
    expressions.annotation(list[i], name, at(field, i));
    const std::string key(list[i].text({"key"}));
    if (!keys.insert(key).second) {
      causes.push_back(krm::field_duplicate(at(field, i) + ".key", Json(key)));
    }
  }
}

void check_param_ref(const Json& ref, std::vector<Cause>& causes) {
  const std::string field = "spec.paramRef";
  const std::string_view name = ref.text({"name"});
  const bool selects = is_set(ref, "selector");
  const char* exclusive = "name and selector are mutually exclusive";
  if (!name.empty()) {
    for (const std::string& fault : krm::check_path_segment(name)) {
      causes.push_back(krm::field_invalid(field + ".name", Json(name), fault));
    }
    if (selects) {
      causes.push_back(krm::field_forbidden(field + ".name", exclusive));
    }
  }
  if (selects) {
    validate_label_selector(*ref.find("selector"), field + ".selector", causes);
    if (!name.empty()) {
      causes.push_back(krm::field_forbidden(field + ".selector", exclusive));
    }
  } else if (name.empty()) {
    causes.push_back(krm::field_required(field, "one of name or selector must be specified"));
  }
  static const Texts& actions = *new Texts{"Deny", "Allow"};
  const std::string_view action = ref.text({"parameterNotFoundAction"});
  if (action.empty()) {
    causes.push_back(krm::field_required(field + ".parameterNotFoundAction"));
  } else if (!is_one_of(actions, action)) {
    causes.push_back(
        krm::field_not_supported(field + ".parameterNotFoundAction", Json(action), actions));
  }
}

void check_actions(const Json& spec, std::vector<Cause>& causes) {
  static const Texts& known = *new Texts{"Audit", "Deny", "Warn"};
  const std::string field = "spec.validationActions";
  const Json::Array& list = items(spec, "validationActions");
  std::set<std::string> seen;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!is_one_of(known, list[i].as_string())) {
      causes.push_back(krm::field_not_supported(at(field, i), list[i], known));
    }
    if (!seen.insert(std::string(list[i].as_string())).second) {
      causes.push_back(krm::field_duplicate(at(field, i), list[i]));
    }
  }
  if (seen.contains("Deny") && seen.contains("Warn")) {
    causes.push_back(krm::field_invalid(
        field, *spec.find("validationActions"),
        "must not contain both Deny and Warn (repeating the same validation failure information "
        "in the API response and headers serves no purpose)"));
  }
  if (seen.empty()) {
    causes.push_back(krm::field_required(field, "at least one validation action is required"));
  }
}

void check_policy_head(const Json& spec, std::vector<Cause>& causes) {
  static const Texts& failure_policies = *new Texts{"Fail", "Ignore"};
  const Json* failure = spec.find("failurePolicy");
  if (failure == nullptr || failure->is_null()) {
    causes.push_back(krm::field_required("spec.failurePolicy"));
  } else if (!is_one_of(failure_policies, failure->as_string())) {
    causes.push_back(krm::field_not_supported("spec.failurePolicy", *failure, failure_policies));
  }
  if (is_set(spec, "paramKind")) {
    check_param_kind(*spec.find("paramKind"), causes);
  }
  if (!is_set(spec, "matchConstraints")) {
    causes.push_back(krm::field_required("spec.matchConstraints"));
  } else {
    const Json& constraints = *spec.find("matchConstraints");
    validate_match_resources(&constraints, "spec.matchConstraints", causes);
    if (items(constraints, "resourceRules").empty()) {
      causes.push_back(krm::field_required("spec.matchConstraints.resourceRules"));
    }
  }
}

/// Nothing that is deleted can be changed.
void check_mutating_operations(const Json* resources, const std::string& field,
                               std::vector<Cause>& causes) {
  static const Texts& known = *new Texts{"*", "CONNECT", "CREATE", "UPDATE"};
  if (resources == nullptr || resources->is_null()) {
    return;
  }
  for (const Json& rule : items(*resources, "resourceRules")) {
    for (const Json& operation : items(rule, "operations")) {
      if (!is_one_of(known, operation.as_string())) {
        causes.push_back(
            krm::field_not_supported(field + ".resourceRules.operations", operation, known));
      }
    }
  }
}

/// What bindings of both kinds of policy have.
void check_binding(const Json& spec, std::vector<Cause>& causes) {
  const std::string_view policy = spec.text({"policyName"});
  if (policy.empty()) {
    causes.push_back(krm::field_required("spec.policyName"));
  } else {
    for (const std::string& fault : krm::check_dns1123_subdomain(policy)) {
      causes.push_back(krm::field_invalid("spec.policyName", Json(policy), fault));
    }
  }
  if (is_set(spec, "paramRef")) {
    check_param_ref(*spec.find("paramRef"), causes);
  }
  validate_match_resources(spec.find("matchResources"), "spec.matchResources", causes);
}

}  // namespace

void validate_match_conditions(const Json& webhook, const std::string& field,
                               std::vector<Cause>& causes) {
  ExpressionCheck expressions(webhook, causes);
  check_conditions(items(webhook, "matchConditions"), field, expressions, causes);
}

void validate_policy(const Json& policy, const Json* old, std::vector<Cause>& causes) {
  const Json& spec = spec_of(policy);
  check_policy_head(spec, causes);
  ExpressionCheck expressions(spec, causes);
  const bool same_conditions = old != nullptr &&
                               same_member(spec, spec_of(*old), "matchConditions") &&
                               same_member(spec, spec_of(*old), "paramKind");
  if (!same_conditions) {
    check_conditions(items(spec, "matchConditions"), "spec.matchConditions", expressions, causes);
  }
  const Json::Array& variables = items(spec, "variables");
  for (std::size_t i = 0; i < variables.size(); ++i) {
    expressions.variable(variables[i], at("spec.variables", i));
  }
  const Json::Array& validations = items(spec, "validations");
  if (validations.empty() && items(spec, "auditAnnotations").empty()) {
    causes.push_back(krm::field_required("spec.validations", kOneNeeded));
    causes.push_back(krm::field_required("spec.auditAnnotations", kOneNeeded));
    return;
  }
  for (std::size_t i = 0; i < validations.size(); ++i) {
    expressions.validation(validations[i], at("spec.validations", i));
  }
  check_annotations(policy, expressions, causes);
}

void validate_policy_status(const Json& policy, std::vector<Cause>& causes) {
  if (const Json* warnings = policy.at({"status", "typeChecking", "expressionWarnings"})) {
    for (std::size_t i = 0; i < warnings->items().size(); ++i) {
      const std::string field = at("status.typeChecking.expressionWarnings", i);
      for (const char* member : {"warning", "fieldRef"}) {
        if (trim(warnings->items()[i].text({member})).empty()) {
          causes.push_back(krm::field_required(field + "." + member));
        }
      }
    }
  }
  static const Texts& states = *new Texts{"False", "True", "Unknown"};
  const Json* conditions = policy.at({"status", "conditions"});
  if (conditions == nullptr) {
    return;
  }
  for (std::size_t i = 0; i < conditions->items().size(); ++i) {
    const Json& condition = conditions->items()[i];
    const std::string field = at("status.conditions", i);
    const std::string_view type = condition.text({"type"});
    for (const std::string& fault : krm::check_qualified_name(type)) {
      causes.push_back(krm::field_invalid(field + ".type", Json(type), fault));
    }
    if (!is_one_of(states, condition.text({"status"}))) {
      causes.push_back(
          krm::field_not_supported(field + ".status", Json(condition.text({"status"})), states));
    }
    for (const char* member : {"lastTransitionTime", "reason"}) {
      if (condition.text({member}).empty()) {
        causes.push_back(krm::field_required(field + "." + member));
      }
    }
  }
}

void validate_policy_binding(const Json& binding, std::vector<Cause>& causes) {
  const Json& spec = spec_of(binding);
  check_binding(spec, causes);
  check_actions(spec, causes);
}

void validate_mutating_policy(const Json& policy, const Json* old, std::vector<Cause>& causes) {
  static const Texts& reinvocations = *new Texts{"IfNeeded", "Never"};
  const Json& spec = spec_of(policy);
  check_policy_head(spec, causes);
  check_mutating_operations(spec.find("matchConstraints"), "spec.matchConstraints", causes);
  ExpressionCheck expressions(spec, causes);
  const bool same_conditions = old != nullptr &&
                               same_member(spec, spec_of(*old), "matchConditions") &&
                               same_member(spec, spec_of(*old), "paramKind");
  if (!same_conditions) {
    check_conditions(items(spec, "matchConditions"), "spec.matchConditions", expressions, causes);
  }
  const Json::Array& variables = items(spec, "variables");
  for (std::size_t i = 0; i < variables.size(); ++i) {
    expressions.variable(variables[i], at("spec.variables", i));
  }
  const Json::Array& mutations = items(spec, "mutations");
  if (mutations.empty()) {
    causes.push_back(
        krm::field_required("spec.mutations", "mutations must contain at least one item"));
  }
  for (std::size_t i = 0; i < mutations.size(); ++i) {
    expressions.mutation(mutations[i], at("spec.mutations", i));
  }
  const std::string_view reinvocation = spec.text({"reinvocationPolicy"});
  if (reinvocation.empty()) {
    causes.push_back(krm::field_required("spec.reinvocationPolicy"));
  } else if (!is_one_of(reinvocations, reinvocation)) {
    causes.push_back(
        krm::field_not_supported("spec.reinvocationPolicy", Json(reinvocation), reinvocations));
  }
}

void validate_mutating_binding(const Json& binding, std::vector<Cause>& causes) {
  const Json& spec = spec_of(binding);
  check_binding(spec, causes);
  check_mutating_operations(spec.find("matchResources"), "spec.matchResources", causes);
}

}  // namespace kintsugi::kinds
