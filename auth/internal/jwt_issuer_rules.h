#pragma once

#include <string>
#include <vector>

#include "auth/jwt_issuer.h"
#include "cel/token_expression.h"

namespace kintsugi::auth::internal {

struct CompiledRule {
  cel::TokenExpressionPtr expression;
  std::string source, message;
};
/// Expressions of an issuer; null where there is none.
struct CompiledIssuer {
  cel::TokenExpressionPtr username, groups, uid;
  std::vector<cel::TokenExpressionPtr> extra;  ///< parallel to the configuration's
  std::vector<CompiledRule> claim_rules, user_rules;
};

/// Checks as Kubernetes' ValidateAuthenticationConfiguration does, and compiles on the way.
void compile_issuer(const JwtIssuerConfig& config, const std::string& field, CompiledIssuer& out,
                    std::vector<Cause>& causes);

}  // namespace kintsugi::auth::internal
