#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "auth/authenticators.h"
#include "auth/internal/issuer_keys.h"
#include "auth/jwt_issuer.h"
#include "base/alive.h"
#include "base/strings.h"
#include "net/loop.h"

namespace kintsugi::auth {

/// Tokens of OIDC and other JWT issuers. A token that holds is
/// believed for `cache`, never beyond its time. Threads: its loop.
class IssuerTokens final : public TokenAuthenticator {
 public:
  struct Limits {
    Duration cache = seconds(10);
    std::size_t max_entries = 4'096;
    std::size_t max_token = 64U << 10;  ///< [bytes]
    Duration wait = seconds(2);         ///< of a token for keys that are being fetched
    Duration timeout = seconds(10);     ///< of a fetch
    /// Fetches keys of issuers that a tenant names, for `cluster`; null: the operator names them.
    std::shared_ptr<net::Outgoing> outgoing;
    std::string cluster;
  };
  /// @param eager  keys are fetched now, not with the first token of their issuer.
  IssuerTokens(net::Loop& loop, JwtIssuers issuers, bool eager);
  /// @param before  whose keys of the same issuers it goes on with, while that one may live on;
  /// null:
  ///        none. Of the same loop.
  IssuerTokens(net::Loop& loop, JwtIssuers issuers, bool eager, Limits limits,
               const IssuerTokens* before = nullptr);
  /// Whoever still waits is told kUnavailable.
  ~IssuerTokens() override;

  /// nullopt: of none of the issuers. @error kUnauthorized it does not hold; kUnavailable the
  /// issuer's keys have never been fetched (503, R-19).
  void authenticate_token(const BearerPtr& token, const std::vector<std::string>& audiences,
                          std::string_view cluster, Done done) override;

 private:
  struct Issuer {
    std::shared_ptr<const JwtIssuer> rules;
    std::shared_ptr<IssuerKeys> keys;  ///< null: not asked for yet
  };
  struct Entry {
    UserInfo user;
    std::int64_t expires_at = 0;  ///< [s since 1970]
    TimePoint until{};
  };
  struct Waiting;
  void start(Issuer& issuer);
  void judge(Issuer& issuer, const BearerPtr& token, Done done, bool may_wait);
  void wait(Issuer& issuer, BearerPtr token, Done done);
  void remember(std::string key, Entry entry);

  net::Loop& loop_;
  std::vector<Issuer> issuers_;
  Limits limits_;
  StringMap<Entry> known_;  ///< by SHA-256 of the token
  std::unordered_map<std::uint64_t, std::unique_ptr<Waiting>> waiting_;
  std::uint64_t last_ticket_ = 0;
  Alive alive_;
};

}  // namespace kintsugi::auth
