#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/authenticator.h"
#include "auth/bearer.h"
#include "auth/request_header.h"
#include "auth/service_account_tokens.h"

namespace kintsugi::auth {

/// Knows one kind of bearer token.
class TokenAuthenticator {
 public:
  struct Result {
    UserInfo user;                       ///< without system:authenticated
    std::vector<std::string> audiences;  ///< those of the token that were asked for
    bool filtered = false;               ///< the groups are final: Params::filter does not apply
  };
  /// nullopt: not a token of this kind, the next one is asked.
  /// @error kUnauthorized ours, but it does not hold; kUnavailable cannot be known now.
  using Done = std::function<void(Expected<std::optional<Result>>)>;
  virtual ~TokenAuthenticator() = default;
  /// @param audiences accepted ones, empty = the server's own.
  /// @param cluster logical cluster of the request, "" when none.
  virtual void authenticate_token(const BearerPtr& token, const std::vector<std::string>& audiences,
                                  std::string_view cluster, Done done) = 0;
};

/// Asks `tokens`, as whoever takes a token from a peer does: of what is beyond the bounds of
/// auth/user.h nothing is believed (SE-087).
/// @error kUnauthorized besides those of authenticate_token()
void authenticate_bounded(TokenAuthenticator& tokens, const BearerPtr& token,
                          const std::vector<std::string>& audiences, std::string_view cluster,
                          TokenAuthenticator::Done done);

/// --token-auth-file: CSV lines `token,user,uid[,"group1,group2"]`.
class TokenFile final : public TokenAuthenticator {
 public:
  /// @error kConfig with the line number.
  [[nodiscard]] static Expected<std::shared_ptr<TokenFile>> parse(std::string_view csv);
  void authenticate_token(const BearerPtr& token, const std::vector<std::string>& audiences,
                          std::string_view cluster, Done done) override;
  [[nodiscard]] std::size_t size() const noexcept { return users_.size(); }

 private:
  // Keyed by SHA-256 of the token, so that a look-up takes the same time for near misses.
  std::vector<std::pair<std::string, UserInfo>> users_;
};

/// ServiceAccount tokens: signature here, existence by `check` (none = not looked up).
class ServiceAccountAuthenticator final : public TokenAuthenticator {
 public:
  struct Params {
    std::shared_ptr<const ServiceAccountTokens> tokens;
    AccountCheck check;
    /// Refuse tokens of another logical cluster than the request's (AM-429). Without it they are
    /// let in with their scope, and the authorizer treats them there as any authenticated stranger,
    /// which is what kcp shards do.
    bool own_cluster_only = false;
    std::function<std::int64_t()> now;  ///< [s since 1970]; empty: the wall clock
  };
  explicit ServiceAccountAuthenticator(Params params);
  void authenticate_token(const BearerPtr& token, const std::vector<std::string>& audiences,
                          std::string_view cluster, Done done) override;

 private:
  Params params_;
};

/// Asks several in order; the first that accepts wins, else the first error, before others one that
/// cannot be known now, else nullopt.
class TokenUnion final : public TokenAuthenticator {
 public:
  explicit TokenUnion(std::vector<std::shared_ptr<TokenAuthenticator>> members);
  void authenticate_token(const BearerPtr& token, const std::vector<std::string>& audiences,
                          std::string_view cluster, Done done) override;
  [[nodiscard]] bool empty() const noexcept { return members_->empty(); }

 private:
  std::shared_ptr<const std::vector<std::shared_ptr<TokenAuthenticator>>> members_;
};

/// Which credential made the identity: a bearer token is not forwarded (FP-126), a certificate's
/// Authorization header is.
enum class CredentialSource : std::uint8_t { kNone, kRequestHeader, kCertificate, kToken };

/// The union of methods: request header, client certificate, token file,
/// ServiceAccount, further tokens. Used by shards and by the proxy.
class RequestAuthenticator final : public Authenticator {
 public:
  enum class NoCredentials : std::uint8_t {
    kPass,    ///< nullopt: anonymous at a shard, unauthenticated at the proxy
    kReject,  ///< kUnauthorized (kcp shards; a proxy with additional methods)
  };
  struct Params {
    RequestHeaderConfig request_header;
    std::shared_ptr<TokenAuthenticator> tokens;  ///< null: bearer tokens are not looked at
    NoCredentials no_credentials = NoCredentials::kPass;
    bool pass_failed_tokens = false;       ///< R-17 on_failure: pass
    std::vector<std::string> pass_groups;  ///< FP 9.3, empty = all
    std::vector<std::string> drop_groups;
    bool filter = false;  ///< apply pass_groups and drop_groups (proxy)
  };
  explicit RequestAuthenticator(Params params);

  void authenticate(const http::RequestHead& head, const BearerPtr& token,
                    const http::PeerInfo& peer, std::string_view cluster, Done done) override;

  /// A proxy with a certificate of this name may say who asks.
  [[nodiscard]] bool lets_assert(std::string_view common_name) const noexcept {
    return may_assert_identity(common_name, params_->request_header);
  }

  struct Authenticated {
    std::optional<UserInfo> user;
    CredentialSource source = CredentialSource::kNone;
  };
  using DoneWithSource = std::function<void(Expected<Authenticated>)>;
  /// The same, telling the source too. @param token  bearer_of() of the headers
  void authenticate_with_source(const http::HeaderList& headers, const BearerPtr& token,
                                const http::PeerInfo& peer, std::string_view cluster,
                                DoneWithSource done);

 private:
  std::shared_ptr<const Params> params_;
};

/// The connection itself says who asks, by its certificate or by identity headers that this
/// certificate allows: a token is not looked at.
[[nodiscard]] bool is_known_by_connection(const http::HeaderList& headers,
                                          const http::PeerInfo& peer,
                                          const RequestHeaderConfig& config);

}  // namespace kintsugi::auth
