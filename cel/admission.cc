#include "cel/admission.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cel/internal/admission_environment.h"
#include "cel/internal/admission_types.h"
#include "cel/internal/authorizer.h"
#include "cel/internal/constructed.h"
#include "cel/internal/evaluator.h"
#include "cel/internal/functions.h"
#include "cel/internal/program.h"
#include "cel/rules.h"
#include "krm/go_text.h"

namespace kintsugi::cel {

namespace {

/// As Go prints a cel.Type.
std::string declared_name(const Type& type) {
  std::string out(type_name(type));
  if (!type.params.empty()) {
    out += '(';
    for (std::size_t i = 0; i < type.params.size(); ++i) {
      out += (i == 0 ? "" : ", ") + declared_name(*type.params[i]);
    }
    out += ')';
  }
  return out;
}

bool is_wanted(const Type& type, ResultType wanted) {
  switch (wanted) {
    case ResultType::kBool:
      return type.kind == TypeKind::kBool;
    case ResultType::kString:
      return type.kind == TypeKind::kString;
    case ResultType::kStringOrNull:
      return type.kind == TypeKind::kString || type.kind == TypeKind::kNull;
    case ResultType::kAny:
      return true;
    case ResultType::kObject:
      return type.kind == TypeKind::kStruct && type.name == kObjectType;
    case ResultType::kPatch:
      return type.kind == TypeKind::kList && type.params[0]->kind == TypeKind::kStruct &&
             type.params[0]->name == kPatchType;
  }
  return false;
}

std::string unwanted(const Type& type, ResultType wanted) {
  const std::string_view names = wanted == ResultType::kBool     ? "bool"
                                 : wanted == ResultType::kString ? "string"
                                 : wanted == ResultType::kObject ? "Object"
                                 : wanted == ResultType::kPatch  ? "list(JSONPatch)"
                                                                 : "one of [string null_type]";
  return "must evaluate to " + std::string(names) + " but got " + declared_name(type);
}

/// The type under which later expressions see a variable: lists, maps and scalars keep theirs.
TypePtr shown_type(const TypePtr& type) {
  switch (type->kind) {
    case TypeKind::kList:
      return list_type(shown_type(type->params[0]));
    case TypeKind::kMap:
      return map_type(shown_type(type->params[0]), shown_type(type->params[1]));
    case TypeKind::kNull:
    case TypeKind::kBool:
    case TypeKind::kInt:
    case TypeKind::kUint:
    case TypeKind::kDouble:
    case TypeKind::kString:
    case TypeKind::kBytes:
    case TypeKind::kDuration:
    case TypeKind::kTimestamp:
      return type;
    default:
      return simple_type(TypeKind::kDyn);
  }
}

Value value_of(const krm::Json* json) {
  return json == nullptr ? Value() : Value::from_json(*json, *dynamic_schema());
}

}  // namespace

Variables AdmissionEnvironment::Impl::declared(const ExpressionScope& scope) const {
  const TypePtr dyn = simple_type(TypeKind::kDyn);
  const TypePtr known = object == nullptr ? dyn : object->type;
  Variables out(kAdmissionSlots, {"#", dyn});  // what is not declared has no name that can be said
  out[kObjectSlot] = {"object", known};
  out[kOldObjectSlot] = {"oldObject", known};
  out[kRequestSlot] = {"request", admission_request_type().type};
  out[kNamespaceSlot] = {"namespaceObject", namespace_type().type};
  if (scope.params) {
    out[kParamsSlot] = {"params", params == nullptr ? dyn : params->type};
  }
  if (scope.authorizer) {
    out[kAuthorizerSlot] = {"authorizer", find_type_name(kAuthorizerType)};
    out[kRequestResourceSlot] = {"authorizer.requestResource", find_type_name(kResourceCheckType)};
  }
  if (composes) {
    out[kVariablesSlot] = {"variables", variables_type.type};
  }
  return out;
}

const AdmissionEnvironment::Impl::Variable* AdmissionEnvironment::Impl::find(
    std::string_view name) const {
  for (auto at = variables.rbegin(); at != variables.rend(); ++at) {
    if (at->name == name) {
      return &*at;
    }
  }
  return nullptr;
}

AdmissionEnvironment::AdmissionEnvironment(bool variables) : impl_(std::make_unique<Impl>()) {
  impl_->composes = variables;
  impl_->variables_type.type = struct_type("kubernetes.variables", &impl_->variables_type);
}

AdmissionEnvironment::AdmissionEnvironment(bool variables, const krm::SchemaPtr& object,
                                           const krm::SchemaPtr& params)
    : AdmissionEnvironment(variables) {
  if (object != nullptr) {
    impl_->object = declare_object_type(*object, "object");
  }
  if (params != nullptr) {
    impl_->params = declare_object_type(*params, "params");
  }
}

AdmissionEnvironment::~AdmissionEnvironment() = default;

std::unique_ptr<ExpressionFault> AdmissionEnvironment::add_variable(std::string_view name,
                                                                    std::string_view expression,
                                                                    const ExpressionScope& scope) {
  auto fault = std::make_unique<ExpressionFault>();
  Impl::Variable variable;
  variable.name = name;
  variable.expression = compile(expression, ResultType::kAny, scope, *fault);
  auto field = std::make_shared<Declaration>();
  if (variable.expression == nullptr) {
    variable.fault = fault->detail;
    field->type = simple_type(TypeKind::kDyn);
  } else {
    field->type = shown_type(variable.expression->type);
    fault.reset();
  }
  impl_->variables_type.fields[variable.name] = std::move(field);
  impl_->variables.push_back(std::move(variable));
  return fault;
}

AdmissionExpressionPtr AdmissionEnvironment::compile(std::string_view expression, ResultType result,
                                                     const ExpressionScope& scope,
                                                     ExpressionFault& fault) const {
  std::vector<SourceError> errors;
  auto out = std::make_shared<AdmissionExpression>();
  out->root = parse(expression, errors);
  Checked checked;
  if (out->root != nullptr) {
    const bool constructs = result == ResultType::kObject || result == ResultType::kPatch;
    checked = check(*out->root, impl_->declared(scope), errors, constructs);
    if (errors.empty()) {
      check_literals(*out->root, errors);
    }
  }
  if (out->root == nullptr || !errors.empty()) {
    fault = {"compilation failed: " + format_errors(expression, std::move(errors)), false};
    return nullptr;
  }
  if (!is_wanted(*checked.type, result)) {
    fault = {unwanted(*checked.type, result), false};
    return nullptr;
  }
  Value broken;
  if (const Value* constant = broken_constant(*out->root, broken)) {
    fault = {"program instantiation failed: " + std::string(constant->text()), true};
    return nullptr;
  }
  out->slots = checked.slots;
  out->type = std::move(checked.type);
  return out;
}

class AdmissionEvaluation::Impl final : public LazyFields {
 public:
  Impl(const AdmissionEnvironment::Impl& environment, const AdmissionInput& input)
      : environment_(environment), values_(kAdmissionSlots) {
    values_[kObjectSlot] = value_of(input.object);
    values_[kOldObjectSlot] = value_of(input.old_object);
    values_[kRequestSlot] = value_of(input.request);
    values_[kNamespaceSlot] = value_of(input.namespace_object);
    values_[kParamsSlot] = value_of(input.params);
    if (input.authorizer != nullptr) {
      values_[kAuthorizerSlot] = authorizer_value(*input.authorizer);
      values_[kRequestResourceSlot] =
          resource_check_value(*input.authorizer, input.request_resource);
    } else {
      values_[kAuthorizerSlot] = Value::error("no such attribute(s): authorizer");
      values_[kRequestResourceSlot] =
          Value::error("no such attribute(s): authorizer.requestResource");
    }
    auto variables = std::make_shared<MapData>();
    variables->lazy = this;
    for (const auto& variable : environment.variables) {
      const Value name = Value::string_view(variable.name);
      std::string key;
      if (variables->new_key(name, key)) {
        variables->entries.emplace(std::move(key), std::pair(name, Value()));
      }
    }
    values_[kVariablesSlot] = Value::map(std::move(variables));
  }

  bool find(std::string_view name, Value& out) const override {
    if (const auto known = made_.find(name); known != made_.end()) {
      out = known->second;
      return true;
    }
    const auto* variable = environment_.find(name);
    if (variable == nullptr) {
      return false;
    }
    const std::string label = "composited variable " + krm::go_quote(name);
    if (variable->expression == nullptr) {
      out = Value::error(label + " fails to compile: " + variable->fault);
    } else {
      Evaluation made = run(*variable->expression, steps_ - std::min(steps_, done_));
      cost_ += made.charge;
      done_ += made.steps;
      out = made.value.is_error()
                ? Value::error(label + " fails to evaluate: " + std::string(made.value.text()))
                : std::move(made.value);
    }
    made_.emplace(std::string(name), out);
    return true;
  }

  [[nodiscard]] Evaluation run(const AdmissionExpression& expression, std::uint64_t steps) const {
    std::vector<Value> slots = values_;
    slots.resize(std::max<std::size_t>(expression.slots, kAdmissionSlots));
    return cel::evaluate(*expression.root, std::move(slots), kCallLimit, charge_of(steps));
  }
  /// Of expressions from now on.
  void set_steps(std::uint64_t steps) {
    steps_ = steps;
    done_ = 0;
  }
  /// Of the variables that were read since.
  [[nodiscard]] std::uint64_t done() const { return done_; }

  [[nodiscard]] std::uint64_t take_cost() { return std::exchange(cost_, 0); }

 private:
  const AdmissionEnvironment::Impl& environment_;
  std::vector<Value> values_;
  mutable std::map<std::string, Value, std::less<>> made_;
  mutable std::uint64_t cost_ = 0;  ///< of variables
  mutable std::uint64_t done_ = 0;  ///< steps of the same
  std::uint64_t steps_ = kPolicySteps;
};

AdmissionEvaluation::AdmissionEvaluation(const AdmissionEnvironment& environment,
                                         const AdmissionInput& input)
    : impl_(std::make_unique<Impl>(environment.impl(), input)) {}

AdmissionEvaluation::~AdmissionEvaluation() = default;

Expected<krm::Json> AdmissionEvaluation::make(const AdmissionExpression& expression,
                                              std::uint64_t& cost) {
  impl_->set_steps(kPolicySteps);
  const Evaluation made = impl_->run(expression, kPolicySteps);
  cost = made.charge + impl_->take_cost();
  if (made.value.is_error()) {
    return fail(Errc::kInvalid, std::string(made.value.text()));
  }
  return expression.type->kind == TypeKind::kList ? made_patch(made.value)
                                                  : made_object(made.value);
}

AdmissionResult AdmissionEvaluation::evaluate(const AdmissionExpression& expression,
                                              std::uint64_t steps) {
  impl_->set_steps(steps);
  const Evaluation made = impl_->run(expression, steps);
  AdmissionResult out;
  out.steps = made.steps + impl_->done();
  out.cost = made.charge + impl_->take_cost();
  switch (made.value.kind()) {
    case Kind::kBool:
      out.kind =
          made.value.is_true() ? AdmissionResult::Kind::kTrue : AdmissionResult::Kind::kFalse;
      break;
    case Kind::kString:
      out.kind = AdmissionResult::Kind::kString;
      out.text = made.value.text();
      break;
    case Kind::kNull:
      out.kind = AdmissionResult::Kind::kNull;
      break;
    case Kind::kError:
      out.text = made.value.text();
      break;
    default:
      out.kind = AdmissionResult::Kind::kOther;
      out.text = made.value.type_name();
  }
  return out;
}

}  // namespace kintsugi::cel
