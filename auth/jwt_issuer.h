#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/internal/jwk.h"
#include "auth/user.h"
#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::auth {

/// One issuer of tokens: an element of `jwt` in Kubernetes' AuthenticationConfiguration, or what
/// the flags --oidc-* say.
struct JwtIssuerConfig {
  struct Rule {
    std::string claim, required_value;  ///< of claimValidationRules
    std::string expression, message;
    bool operator==(const Rule&) const = default;
  };
  struct Mapping {
    std::string claim, expression;
    std::optional<std::string> prefix;
    bool operator==(const Mapping&) const = default;
  };
  struct Extra {
    std::string key, expression;
    bool operator==(const Extra&) const = default;
  };

  std::string url;            ///< `iss` of its tokens
  std::string discovery_url;  ///< "": below `url`
  std::string ca_pem;         ///< of its server; "": the machine's
  std::vector<std::string> audiences;
  std::string audience_match_policy;
  std::vector<Rule> claim_rules;
  Mapping username, groups, uid;
  std::vector<Extra> extra;
  std::vector<Rule> user_rules;
  std::vector<JwsAlgorithm> algorithms;  ///< of signatures; empty: all
  /// Of all expressions for one token [cost units]; more is a refusal.
  std::uint64_t cost_limit = 10'000'000;
  bool operator==(const JwtIssuerConfig&) const = default;
};

/// Reads an element of `jwt`. What is absent or of another type is empty.
[[nodiscard]] JwtIssuerConfig issuer_from_json(const krm::Json& element);

/// An issuer that is ready to judge tokens: rules checked, expressions compiled. No I/O.
/// Immutable. Threads: any.
class JwtIssuer {
 public:
  /// @param field path of the element ("jwt[0]"). @param causes gets what is wrong, in Kubernetes'
  ///        order and words. @returns null then.
  [[nodiscard]] static std::shared_ptr<const JwtIssuer> make(JwtIssuerConfig config,
                                                             const std::string& field,
                                                             std::vector<Cause>& causes);
  ~JwtIssuer();
  [[nodiscard]] const JwtIssuerConfig& config() const noexcept { return config_; }
  /// Where the discovery document is.
  [[nodiscard]] std::string discovery_url() const;

  struct Identity {
    UserInfo user;                ///< without system:authenticated
    std::int64_t expires_at = 0;  ///< [s since 1970]
  };
  /// Who a token is whose signature holds: issuer, audience, time, rules and mappings.
  /// @param claims of the token. @param now seconds since 1970; a lead of the issuer's clock of
  ///        60 s is tolerated for nbf.
  /// @error kUnauthorized says why, for logs.
  [[nodiscard]] Expected<Identity> identify(const krm::Json& claims, std::int64_t now) const;

 private:
  struct Compiled;
  explicit JwtIssuer(JwtIssuerConfig config);
  JwtIssuerConfig config_;
  std::unique_ptr<Compiled> compiled_;
};
using JwtIssuers = std::vector<std::shared_ptr<const JwtIssuer>>;

/// The elements of a `jwt` list, each with its own rules and those of the list.
/// @param field path of the list. @param cost_limit see JwtIssuerConfig; 0: its default.
/// @returns none when there are causes.
[[nodiscard]] JwtIssuers issuers_from_json(const krm::Json& list, const std::string& field,
                                           std::vector<Cause>& causes,
                                           std::uint64_t cost_limit = 0);

/// An AuthenticationConfiguration of apiserver.config.k8s.io, as YAML or JSON; unknown fields are
/// refused.
/// @error kConfig every cause, joined.
[[nodiscard]] Expected<JwtIssuers> parse_authentication_configuration(std::string_view text);

/// The issuer that an unverified token names; Google's short name becomes its URL.
[[nodiscard]] std::string_view token_issuer(const krm::Json& claims);

}  // namespace kintsugi::auth
