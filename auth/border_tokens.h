#pragma once

#include <memory>

#include "auth/authenticators.h"
#include "auth/reserved_identity.h"

namespace kintsugi::auth {

/// What is let in of the identities that another authenticator's tokens give: nothing that only the
/// system gives (drop_reserved), and of user names system:* those that are allowed.
class BorderTokens final : public TokenAuthenticator {
 public:
  /// Whose word the inner authenticator takes.
  enum class Source : std::uint8_t {
    kOurs,    ///< ServiceAccounts, issuers of workspaces: names and extras are made by us
    kServer,  ///< a webhook: may name users of the system
    kOthers,  ///< token files, issuers
  };
  BorderTokens(std::shared_ptr<TokenAuthenticator> inner, Source source, BorderRules rules)
      : inner_(std::move(inner)), source_(source), rules_(std::move(rules)) {}
  /// @error kUnauthorized  a user of the system that nobody has allowed; else as the inner one.
  void authenticate_token(const BearerPtr& token, const std::vector<std::string>& audiences,
                          std::string_view cluster, Done done) override;

 private:
  std::shared_ptr<TokenAuthenticator> inner_;
  Source source_;
  BorderRules rules_;
};

}  // namespace kintsugi::auth
