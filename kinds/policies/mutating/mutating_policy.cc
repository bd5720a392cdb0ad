#include "kinds/policies/mutating/mutating_policy.h"

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

}  // namespace

MutatingPolicy::MutatingPolicy(const Json& policy)
    : name(policy.text({"metadata", "name"})), environment(true) {
  const Json* found = policy.find("spec");
  const Json spec = found == nullptr ? Json() : *found;
  ignores_failure = spec.text({"failurePolicy"}) == "Ignore";
  reinvoked = spec.text({"reinvocationPolicy"}) == "IfNeeded";
  if (const Json* kind = spec.find("paramKind"); kind != nullptr && kind->is_object()) {
    param_kind = parse_kind(kind->text({"apiVersion"}), kind->text({"kind"}));
  }
  constraints = MatchResources::parse(spec.find("matchConstraints"));
  const cel::ExpressionScope scope{param_kind.has_value(), true};
  const auto compile = [&](std::string_view source, ResultType type) {
    PolicyExpression out;
    out.source = source;
    cel::ExpressionFault fault;
    out.program = environment.compile(source, type, scope, fault);
    out.fault = std::move(fault.detail);
    return out;
  };
  for (const Json& variable : items(spec, "variables")) {
    // One that does not compile any more fails where it is read.
    (void)environment.add_variable(variable.text({"name"}), variable.text({"expression"}), scope);
  }
  for (const Json& condition : items(spec, "matchConditions")) {
    conditions.push_back(compile(condition.text({"expression"}), ResultType::kBool));
  }
  for (const Json& mutation : items(spec, "mutations")) {
    const bool patch = mutation.text({"patchType"}) == "JSONPatch";
    const std::string_view source =
        mutation.text({patch ? "jsonPatch" : "applyConfiguration", "expression"});
    mutations.push_back({patch, compile(source, patch ? ResultType::kPatch : ResultType::kObject)});
  }
}

}  // namespace kintsugi::kinds
