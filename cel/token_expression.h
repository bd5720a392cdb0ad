#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"

/// Expressions of an AuthenticationConfiguration, over what a token says or over the user that was
/// made of it, as Kubernetes has them.
namespace kintsugi::cel {

enum class TokenVariable : std::uint8_t {
  kClaims,  ///< `claims`, a map of anything
  kUser,    ///< `user`: username, uid, groups, extra
};

/// One compiled expression. Immutable. Threads: any.
class TokenExpression;
using TokenExpressionPtr = std::shared_ptr<const TokenExpression>;

/// @param fault what is wrong, in Kubernetes' words ("compilation failed: …", "must evaluate to
///        bool"). @returns null then.
[[nodiscard]] TokenExpressionPtr compile_token_expression(std::string_view source,
                                                          TokenVariable variable, bool must_be_bool,
                                                          std::string& fault);
/// True when it selects `claims.<name>` or `claims.?<name>`.
[[nodiscard]] bool reads_claim(const TokenExpression& expression, std::string_view name);

struct TokenValue {
  enum class Kind : std::uint8_t { kBool, kString, kStrings, kNull, kOther, kError };
  Kind kind = Kind::kError;
  bool truth = false;
  std::vector<std::string> strings;  ///< one for kString
  std::string error;
};
/// @param value the claims or the user; outlives the call.
/// @param budget what evaluations may still cost together [cost units]; gets less by this one,
/// which
///        is stopped with an error at its end and at kCallLimit.
[[nodiscard]] TokenValue evaluate_token_expression(const TokenExpression& expression,
                                                   const krm::Json& value, std::uint64_t& budget);

}  // namespace kintsugi::cel
