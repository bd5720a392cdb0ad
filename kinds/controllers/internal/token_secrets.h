#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "apiserver/controllers/controller.h"
#include "auth/service_account_tokens.h"

namespace kintsugi::kinds {

struct TokenSecretsParams {
  /// Makes the token of these claims; empty: the controller does not run.
  std::function<Expected<std::string>(const auth::ServiceAccountClaims&)> issue;
  std::string root_ca_pem;            ///< data["ca.crt"]; "" leaves it out
  std::function<std::int64_t()> now;  ///< [s since 1970]; empty: the wall clock
};

/// Fills Secrets of type kubernetes.io/service-account-token with token, ca.crt and namespace, and
/// deletes them with their ServiceAccount (AM-332). The token is bound to the Secret: it ends when
/// the Secret or the account goes.
class TokenSecrets final : public apiserver::ControllerBase {
 public:
  TokenSecrets(const apiserver::ControllerContext& context, TokenSecretsParams params);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  void process(const std::string& key, Finished finished) override;
  /// Queues the token Secrets of an account.
  void enqueue_of(std::string_view cluster, std::string_view ns, std::string_view account);
  void fill(const apiserver::ObjectKey& key, krm::Json secret, const std::string& account_uid,
            Finished finished);

  TokenSecretsParams params_;
};

}  // namespace kintsugi::kinds
