#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "apiserver/resource.h"
#include "auth/authenticators.h"
#include "auth/authorizer.h"
#include "auth/service_account_tokens.h"
#include "kinds/rbac/rbac.h"

/// Kinds that are answered and never stored: who am I, what may I, is this token good, give me a
/// token (AM-430 to AM-434, AM-451 to AM-453).
namespace kintsugi::kinds {

struct ReviewParams {
  auth::Authorizer& authorizer;
  /// For SelfSubjectRulesReview; null: its answers are marked incomplete.
  const RbacAuthorizer* rbac = nullptr;
  /// For TokenReview; null: no token is good.
  std::shared_ptr<auth::TokenAuthenticator> tokens;
  /// For TokenRequest; null or without private key: the subresource answers 500.
  std::shared_ptr<const auth::ServiceAccountTokens> issuer;
  std::function<std::int64_t()> now;  ///< [s since 1970]; empty: the wall clock
};

/// selfsubjectreviews and tokenreviews (authentication.k8s.io), selfsubjectaccessreviews,
/// subjectaccessreviews, localsubjectaccessreviews and selfsubjectrulesreviews
/// (authorization.k8s.io), version v1. The server sets metadata.namespace of a namespaced body from
/// the path before it calls `answer`. What `params` refers to must outlive the definitions' use.
[[nodiscard]] std::vector<apiserver::ResourcePtr> review_kinds(const ReviewParams& params);

/// A copy of the serviceaccounts kind with subresource `token` (TokenRequest).
[[nodiscard]] apiserver::ResourcePtr with_token_subresource(apiserver::ResourcePtr service_accounts,
                                                            const ReviewParams& params);

/// Checks account and bound Secret against the objects of the token's cluster (of `default_cluster`
/// for tokens without one). Answers at once. `reader` must outlive the check. Loop: the reader's.
[[nodiscard]] auth::AccountCheck make_account_check(const apiserver::ObjectReader& reader,
                                                    std::string default_cluster = {});

}  // namespace kintsugi::kinds
