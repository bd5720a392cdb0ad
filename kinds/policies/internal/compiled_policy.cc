#include "kinds/policies/internal/compiled_policy.h"

#include <utility>

namespace kintsugi::kinds {
namespace {

using cel::ResultType;
using krm::Json;

const Json::Array& items(const Json& spec, std::string_view member) {
  static const Json::Array& none = *new Json::Array;
  const Json* list = spec.find(member);
  return list == nullptr ? none : list->items();
}

const Json& spec_of(const Json& object) {
  static const Json& none = *new Json;
  const Json* spec = object.find("spec");
  return spec == nullptr ? none : *spec;
}

}  // namespace

GroupVersionName parse_kind(std::string_view api_version, std::string_view kind) {
  const std::size_t slash = api_version.find('/');
  if (slash == std::string_view::npos) {
    return {"", std::string(api_version), std::string(kind)};
  }
  return {std::string(api_version.substr(0, slash)), std::string(api_version.substr(slash + 1)),
          std::string(kind)};
}

CompiledPolicy::CompiledPolicy(const Json& policy)
    : name(policy.text({"metadata", "name"})), environment(true) {
  const Json& spec = spec_of(policy);
  ignores_failure = spec.text({"failurePolicy"}) == "Ignore";
  if (const Json* kind = spec.find("paramKind"); kind != nullptr && kind->is_object()) {
    param_kind = parse_kind(kind->text({"apiVersion"}), kind->text({"kind"}));
  }
  constraints = MatchResources::parse(spec.find("matchConstraints"));
  const cel::ExpressionScope with_authorizer{param_kind.has_value(), true};
  const cel::ExpressionScope without{param_kind.has_value(), false};
  const auto compile = [this](std::string_view source, ResultType type,
                              const cel::ExpressionScope& scope) {
    PolicyExpression out;
    out.source = source;
    cel::ExpressionFault fault;
    out.program = environment.compile(source, type, scope, fault);
    out.fault = std::move(fault.detail);
    return out;
  };
  for (const Json& variable : items(spec, "variables")) {
    // One that does not compile any more fails where it is read.
    (void)environment.add_variable(variable.text({"name"}), variable.text({"expression"}),
                                   with_authorizer);
  }
  for (const Json& condition : items(spec, "matchConditions")) {
    conditions.push_back(
        compile(condition.text({"expression"}), ResultType::kBool, with_authorizer));
  }
  for (const Json& validation : items(spec, "validations")) {
    PolicyValidation out;
    out.expression = compile(validation.text({"expression"}), ResultType::kBool, with_authorizer);
    if (const std::string_view text = validation.text({"messageExpression"}); !text.empty()) {
      out.message_expression = compile(text, ResultType::kString, without);
    }
    out.message = validation.text({"message"});
    out.reason = validation.text({"reason"});
    validations.push_back(std::move(out));
  }
  for (const Json& annotation : items(spec, "auditAnnotations")) {
    annotations.push_back({std::string(annotation.text({"key"})),
                           compile(annotation.text({"valueExpression"}), ResultType::kStringOrNull,
                                   with_authorizer)});
  }
}

PolicyBinding::PolicyBinding(const Json& binding) : name(binding.text({"metadata", "name"})) {
  const Json& spec = spec_of(binding);
  policy = spec.text({"policyName"});
  if (const Json* ref = spec.find("paramRef"); ref != nullptr && ref->is_object()) {
    params.emplace();
    params->name = ref->text({"name"});
    params->ns = ref->text({"namespace"});
    params->must_exist = ref->text({"parameterNotFoundAction"}) == "Deny";
    if (const Json* selector = ref->find("selector"); selector != nullptr) {
      Expected<krm::Selector> parsed = krm::Selector::from_json(*selector);
      if (parsed) {
        params->selector = std::move(*parsed);
      }
    }
  }
  resources = MatchResources::parse(spec.find("matchResources"));
  for (const Json& action : items(spec, "validationActions")) {
    actions.emplace_back(action.as_string());
  }
}

}  // namespace kintsugi::kinds
