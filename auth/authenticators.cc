#include "auth/authenticators.h"

#include <algorithm>
#include <utility>

#include "auth/x509_identity.h"
#include "base/strings.h"
#include "base/time.h"

namespace kintsugi::auth {
namespace {

/// The identity of the connection itself: request headers of a trusted proxy, or the certificate.
struct ConnectionResult {
  std::optional<UserInfo> user;
  CredentialSource source = CredentialSource::kNone;
  bool failed = false;  ///< credentials were given and do not hold
};

ConnectionResult connection_identity(const http::HeaderList& headers, const http::PeerInfo& peer,
                                     const RequestHeaderConfig& config) {
  ConnectionResult result;
  const CertificateIdentity* certificate = certificate_of(peer);
  if (certificate == nullptr) {
    result.failed = !peer.certificates_der.empty();
    return result;
  }
  if (certificate->valid && certificate->from_request_header_ca &&
      may_assert_identity(certificate->common_name, config)) {
    if (std::optional<UserInfo> user = read_identity_headers(headers, config)) {
      result.user = std::move(user);
      result.source = CredentialSource::kRequestHeader;
      return result;
    }
  }
  if (certificate->valid && certificate->from_client_ca && !certificate->common_name.empty()) {
    UserInfo user;
    user.name = certificate->common_name;
    user.groups = certificate->organizations;
    user.extra.emplace_back(kExtraCredentialId,
                            std::vector<std::string>{"X509SHA256=" + certificate->sha256_hex});
    result.user = std::move(user);
    result.source = CredentialSource::kCertificate;
    return result;
  }
  result.failed = true;
  return result;
}

void finish_identity(UserInfo& user, const RequestAuthenticator::Params& params,
                     bool filtered = false) {
  add_authenticated_group(user);
  if (params.filter && !filtered) {
    user.groups = filter_groups(user.groups, params.pass_groups, params.drop_groups);
  }
}

}  // namespace

bool is_known_by_connection(const http::HeaderList& headers, const http::PeerInfo& peer,
                            const RequestHeaderConfig& config) {
  return connection_identity(headers, peer, config).user.has_value();
}

void authenticate_bounded(TokenAuthenticator& tokens, const BearerPtr& token,
                          const std::vector<std::string>& audiences, std::string_view cluster,
                          TokenAuthenticator::Done done) {
  if (token->text().size() > kMostTokenBytes) {
    done(fail(Errc::kUnauthorized, "the token is too long"));
    return;
  }
  tokens.authenticate_token(
      token, audiences, cluster,
      [done = std::move(done)](Expected<std::optional<TokenAuthenticator::Result>> result) {
        if (result && result->has_value() && !is_within_bounds((*result)->user)) {
          done(fail(Errc::kUnauthorized, "the token has too many groups or too much extra"));
          return;
        }
        done(std::move(result));
      });
}

ServiceAccountAuthenticator::ServiceAccountAuthenticator(Params params)
    : params_(std::move(params)) {
  if (!params_.now) {
    params_.now = [] { return unix_seconds(); };
  }
}

void ServiceAccountAuthenticator::authenticate_token(const BearerPtr& token,
                                                     const std::vector<std::string>& audiences,
                                                     std::string_view cluster, Done done) {
  if (!params_.tokens->is_ours(*token)) {
    done(std::nullopt);
    return;
  }
  Expected<ServiceAccountClaims> claims = params_.tokens->verify(*token, audiences, params_.now());
  if (!claims) {
    done(fail(std::move(claims.error())));
    return;
  }
  if (params_.own_cluster_only && !claims->cluster.empty() && claims->cluster != cluster) {
    done(fail(Errc::kUnauthorized, "the token is of another logical cluster"));
    return;
  }
  Result result;
  result.user = service_account_identity(*claims);
  const std::vector<std::string>& accepted =
      audiences.empty() ? params_.tokens->default_audiences() : audiences;
  for (const std::string& audience : accepted) {
    if (std::find(claims->audiences.begin(), claims->audiences.end(), audience) !=
        claims->audiences.end()) {
      result.audiences.push_back(audience);
    }
  }
  if (!params_.check) {
    done(std::optional<Result>(std::move(result)));
    return;
  }
  params_.check(
      *claims, [result = std::move(result), done = std::move(done)](Expected<void> exists) mutable {
        if (!exists) {
          done(fail(std::move(exists.error())));
          return;
        }
        done(std::optional<Result>(std::move(result)));
      });
}

TokenUnion::TokenUnion(std::vector<std::shared_ptr<TokenAuthenticator>> members)
    : members_(std::make_shared<const std::vector<std::shared_ptr<TokenAuthenticator>>>(
          std::move(members))) {}

namespace {

using Members = std::shared_ptr<const std::vector<std::shared_ptr<TokenAuthenticator>>>;

struct UnionStep {
  Members members;
  BearerPtr token;
  std::vector<std::string> audiences;
  std::string cluster;
  TokenAuthenticator::Done done;
  std::shared_ptr<Error> first_error;
};

void ask_next(std::shared_ptr<UnionStep> step, std::size_t index) {
  if (index == step->members->size()) {
    if (step->first_error) {
      step->done(fail(std::move(*step->first_error)));
    } else {
      step->done(std::nullopt);
    }
    return;
  }
  TokenAuthenticator& member = *(*step->members)[index];
  member.authenticate_token(
      step->token, step->audiences, step->cluster,
      [step, index](Expected<std::optional<TokenAuthenticator::Result>> result) {
        if (result && result->has_value()) {
          step->done(std::move(result));
          return;
        }
        if (!result && (!step->first_error || result.error().code() == Errc::kUnavailable)) {
          step->first_error = std::make_shared<Error>(std::move(result.error()));
        }
        ask_next(step, index + 1);
      });
}

}  // namespace

void TokenUnion::authenticate_token(const BearerPtr& token,
                                    const std::vector<std::string>& audiences,
                                    std::string_view cluster, Done done) {
  auto step = std::make_shared<UnionStep>();
  step->members = members_;
  step->token = token;
  step->audiences = audiences;
  step->cluster = cluster;
  step->done = std::move(done);
  ask_next(std::move(step), 0);
}

RequestAuthenticator::RequestAuthenticator(Params params)
    : params_(std::make_shared<const Params>(std::move(params))) {}

void RequestAuthenticator::authenticate(const http::RequestHead& head, const BearerPtr& token,
                                        const http::PeerInfo& peer, std::string_view cluster,
                                        Done done) {
  authenticate_with_source(head.headers, token, peer, cluster,
                           [done = std::move(done)](Expected<Authenticated> result) {
                             if (!result) {
                               done(fail(std::move(result.error())));
                               return;
                             }
                             done(std::move(result->user));
                           });
}

void RequestAuthenticator::authenticate_with_source(const http::HeaderList& headers,
                                                    const BearerPtr& token,
                                                    const http::PeerInfo& peer,
                                                    std::string_view cluster, DoneWithSource done) {
  ConnectionResult connection = connection_identity(headers, peer, params_->request_header);
  if (connection.user) {
    if (!is_within_bounds(*connection.user)) {
      done(fail(Errc::kUnauthorized, "Unauthorized"));
      return;
    }
    finish_identity(*connection.user, *params_);
    done(Authenticated{std::move(connection.user), connection.source});
    return;
  }
  const auto without_token = [failed = connection.failed,
                              params = params_]() -> Expected<Authenticated> {
    if (failed || params->no_credentials == NoCredentials::kReject) {
      return fail(Errc::kUnauthorized, "Unauthorized");
    }
    return Authenticated{};
  };
  if (token == nullptr || token->text().empty() || !params_->tokens) {
    done(without_token());
    return;
  }
  authenticate_bounded(*params_->tokens, token, {}, cluster,
                       [done = std::move(done), params = params_,
                        without_token](Expected<std::optional<TokenAuthenticator::Result>> result) {
                         if (result && result->has_value()) {
                           Authenticated authenticated;
                           authenticated.user = std::move((*result)->user);
                           authenticated.source = CredentialSource::kToken;
                           finish_identity(*authenticated.user, *params, (*result)->filtered);
                           done(std::move(authenticated));
                           return;
                         }
                         if (!result && result.error().code() == Errc::kUnavailable) {
                           done(fail(std::move(result.error())));
                           return;
                         }
                         if (params->pass_failed_tokens) {
                           done(without_token());
                           return;
                         }
                         done(fail(Errc::kUnauthorized, "Unauthorized"));
                       });
}

}  // namespace kintsugi::auth
