#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "auth/issuer_tokens.h"
#include "base/alive.h"
#include "net/loop.h"
#include "net/outgoing.h"

namespace kintsugi::auth {

/// Of a type; tokens of further ones are of none.
inline constexpr std::size_t kMostConfigurations = 64;

/// Of a WorkspaceAuthenticationConfiguration: its issuers, none when it is wrong, which is a line
/// in the log. Those who write such objects run no server: their expressions are bounded further.
[[nodiscard]] JwtIssuers configured_issuers(const krm::Json& configuration,
                                            std::string_view cluster, std::string_view name);
/// The names in `spec.authenticationConfigurations` of a WorkspaceType, kMostConfigurations at
/// most.
[[nodiscard]] std::vector<std::string> configuration_names(const krm::Json& type,
                                                           std::string_view cluster,
                                                           std::string_view name);

/// Tokens of issuers that objects of tenants name (R-19, KK-120). Keys are fetched with the first
/// token, by the rules of `outgoing`, and kept as long as the issuers are the same. Threads: one
/// loop.
class ConfiguredIssuers {
 public:
  struct Configuration {
    std::string key;      ///< of the object
    std::string cluster;  ///< where it is: who pays for fetches
    std::shared_ptr<const JwtIssuers> issuers;
  };
  ConfiguredIssuers(net::Loop& loop, std::shared_ptr<net::Outgoing> outgoing)
      : loop_(loop), outgoing_(std::move(outgoing)) {}

  /// Asks those that know the token's issuer. A user that is found is bound to the logical cluster
  /// (bind_to_workspace) and final. @error kUnauthorized it does not hold, or means a user of the
  /// system; kUnavailable keys were never fetched.
  void authenticate(const std::vector<Configuration>& configurations, const BearerPtr& token,
                    const std::vector<std::string>& audiences, std::string_view cluster,
                    TokenAuthenticator::Done done);
  /// What is no more, or has other issuers, goes; who waits for its keys is told kUnavailable.
  /// @param issuers_of  null: none
  void keep(const std::function<const JwtIssuers*(const std::string& key)>& issuers_of);

 private:
  struct Tokens {
    std::shared_ptr<const JwtIssuers> issuers;
    std::shared_ptr<IssuerTokens> tokens;
  };
  net::Loop& loop_;
  std::shared_ptr<net::Outgoing> outgoing_;
  std::map<std::string, Tokens, std::less<>> tokens_;  ///< by key; made when they are needed
};

/// The rules of KK-120 and KK-121 for a user from such an issuer: `system:` names are refused, such
/// groups, those of maximal permission policies and kcp's own extras dropped, scope and cluster
/// name added. False: refused.
[[nodiscard]] bool bind_to_workspace(UserInfo& user, std::string_view cluster);

}  // namespace kintsugi::auth
