#include "cel/token_expression.h"

#include <algorithm>
#include <utility>

#include "cel/internal/admission_types.h"
#include "cel/internal/checker.h"
#include "cel/internal/evaluator.h"
#include "cel/internal/program.h"
#include "cel/rules.h"

namespace kintsugi::cel {

class TokenExpression {
 public:
  ExprPtr root;
  std::size_t slots = 1;
};

namespace {

constexpr std::string_view kClaimsName = "claims";

Variables variables_of(TokenVariable variable) {
  if (variable == TokenVariable::kUser) {
    return {{"user", admission_request_type().fields.find("userInfo")->second->type}};
  }
  return {{std::string(kClaimsName),
           map_type(simple_type(TypeKind::kString), simple_type(TypeKind::kDyn))}};
}

bool is_claims(const ExprPtr& expr) {
  return expr != nullptr && expr->kind == ExprKind::kIdent && expr->name == kClaimsName;
}

bool reads(const Expr& expr, std::string_view claim) {
  if (expr.kind == ExprKind::kSelect && is_claims(expr.target) && expr.name == claim) {
    return true;
  }
  if (expr.kind == ExprKind::kCall && expr.name == "_?._" && expr.args.size() == 2 &&
      is_claims(expr.args[0]) && expr.args[1]->kind == ExprKind::kLiteral &&
      expr.args[1]->literal.is(Kind::kString) && expr.args[1]->literal.text() == claim) {
    return true;
  }
  return (expr.target != nullptr && reads(*expr.target, claim)) ||
         std::any_of(expr.args.begin(), expr.args.end(),
                     [&](const ExprPtr& arg) { return arg != nullptr && reads(*arg, claim); });
}

TokenValue value_of(const Value& value) {
  using Found = TokenValue::Kind;
  TokenValue out;
  switch (value.kind()) {
    case Kind::kError:
      out.error = value.text();
      break;
    case Kind::kNull:
      out.kind = Found::kNull;
      break;
    case Kind::kBool:
      out.kind = Found::kBool;
      out.truth = value.is_true();
      break;
    case Kind::kString:
      out.kind = Found::kString;
      out.strings.emplace_back(value.text());
      break;
    case Kind::kList: {
      out.kind = Found::kStrings;
      for (const Value& item : value.items()) {
        if (!item.is(Kind::kString)) {
          out.kind = Found::kOther;
          out.strings.clear();
          break;
        }
        out.strings.emplace_back(item.text());
      }
      break;
    }
    default:
      out.kind = Found::kOther;
  }
  return out;
}

}  // namespace

TokenExpressionPtr compile_token_expression(std::string_view source, TokenVariable variable,
                                            bool must_be_bool, std::string& fault) {
  std::vector<SourceError> errors;
  auto out = std::make_shared<TokenExpression>();
  out->root = parse(source, errors);
  Checked checked;
  if (out->root != nullptr) {
    checked = check(*out->root, variables_of(variable), errors);
    if (errors.empty()) {
      check_literals(*out->root, errors);
    }
  }
  if (out->root == nullptr || !errors.empty()) {
    fault = "compilation failed: " + format_errors(source, std::move(errors));
    return nullptr;
  }
  if (must_be_bool && checked.type->kind != TypeKind::kBool) {
    fault = "must evaluate to bool";
    return nullptr;
  }
  Value broken;
  if (const Value* constant = broken_constant(*out->root, broken)) {
    fault = "program instantiation failed: " + std::string(constant->text());
    return nullptr;
  }
  out->slots = std::max<std::size_t>(checked.slots, 1);
  return out;
}

bool reads_claim(const TokenExpression& expression, std::string_view name) {
  return reads(*expression.root, name);
}

TokenValue evaluate_token_expression(const TokenExpression& expression, const krm::Json& value,
                                     std::uint64_t& budget) {
  std::vector<Value> slots(expression.slots);
  slots[0] = Value::from_json(value, *dynamic_schema());
  const Evaluation made =
      evaluate(*expression.root, std::move(slots), std::min(budget, kCallLimit), budget);
  budget -= std::min(budget, made.charge);
  return value_of(made.value);
}

}  // namespace kintsugi::cel
