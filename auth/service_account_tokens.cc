#include "auth/service_account_tokens.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace kintsugi::auth {
namespace {

constexpr std::int64_t kLeeway = 60;  // [s]

std::vector<std::string> texts_of(const krm::Json* value) {
  std::vector<std::string> out;
  if (value != nullptr && value->is_string()) {
    out.emplace_back(value->as_string());
  } else if (value != nullptr) {
    for (const krm::Json& item : value->items()) {
      out.emplace_back(item.as_string());
    }
  }
  return out;
}

std::int64_t seconds_of(const krm::Json& claims, std::string_view name, std::int64_t otherwise) {
  const krm::Json* value = claims.find(name);
  if (value == nullptr || !value->is_number()) {
    return otherwise;
  }
  return value->is_integer() ? value->as_integer() : static_cast<std::int64_t>(value->as_double());
}

tl::unexpected<Error> refuse(const char* why) { return fail(Errc::kUnauthorized, why); }

}  // namespace

UserInfo service_account_identity(const ServiceAccountClaims& claims) {
  UserInfo user;
  user.name = service_account_user(claims.ns, claims.name);
  user.uid = claims.uid;
  user.groups = service_account_groups(claims.ns);
  if (!claims.cluster.empty()) {
    user.extra.emplace_back(kExtraClusterName, std::vector<std::string>{claims.cluster});
    user.extra.emplace_back(kExtraScopes, std::vector<std::string>{"cluster:" + claims.cluster});
  }
  if (!claims.jti.empty()) {
    user.extra.emplace_back(kExtraCredentialId, std::vector<std::string>{"JTI=" + claims.jti});
  }
  return user;
}

ServiceAccountTokens::ServiceAccountTokens(ServiceAccountTokenConfig config)
    : config_(std::move(config)) {
  if (config_.audiences.empty()) {
    config_.audiences = config_.issuers;
  }
  set_keys(std::move(config_.keys));
}

void ServiceAccountTokens::set_keys(JwtKeys keys) {
  config_.keys = std::move(keys);
  const auto signer = std::find_if(config_.keys.begin(), config_.keys.end(),
                                   [](const auto& key) { return key->is_private(); });
  signer_ = signer == config_.keys.end() ? nullptr : *signer;
}

bool ServiceAccountTokens::is_ours(const Bearer& token) const {
  const Jwt* const jwt = token.jwt();
  return jwt != nullptr && std::find(config_.issuers.begin(), config_.issuers.end(),
                                     jwt->claims.text({"iss"})) != config_.issuers.end();
}

Expected<ServiceAccountClaims> ServiceAccountTokens::verify(
    const Bearer& token, const std::vector<std::string>& audiences, std::int64_t now) const {
  const Jwt* const jwt = token.jwt();
  if (jwt == nullptr) {
    return refuse("the token is no JWT");
  }
  if (Expected<void> verified = verify_jwt(*jwt, config_.keys); !verified) {
    return fail(std::move(verified.error()));
  }
  const krm::Json& body = jwt->claims;
  if (std::find(config_.issuers.begin(), config_.issuers.end(), body.text({"iss"})) ==
      config_.issuers.end()) {
    return refuse("the token is of another issuer");
  }

  ServiceAccountClaims claims;
  claims.ns = body.text({"kubernetes.io", "namespace"});
  claims.name = body.text({"kubernetes.io", "serviceaccount", "name"});
  claims.uid = body.text({"kubernetes.io", "serviceaccount", "uid"});
  claims.cluster = body.text({"kubernetes.io", "clusterName"});
  claims.jti = body.text({"jti"});
  for (const char* kind : {"secret", "pod"}) {
    if (const krm::Json* bound = body.at({"kubernetes.io", kind})) {
      claims.bound_kind = *kind == 's' ? "Secret" : "Pod";
      claims.bound_name = bound->text({"name"});
      claims.bound_uid = bound->text({"uid"});
    }
  }
  claims.issued_at = seconds_of(body, "iat", 0);
  claims.expires_at = seconds_of(body, "exp", 0);
  claims.audiences = texts_of(body.find("aud"));
  if (claims.ns.empty() || claims.name.empty() || claims.uid.empty() ||
      body.text({"sub"}) != service_account_user(claims.ns, claims.name)) {
    return refuse("the token names no service account");
  }
  if (claims.expires_at <= now) {
    return refuse("the token has expired");
  }
  if (seconds_of(body, "nbf", 0) > now + kLeeway || claims.issued_at > now + kLeeway) {
    return refuse("the token is not valid yet");
  }
  const std::vector<std::string>& accepted = audiences.empty() ? config_.audiences : audiences;
  const bool meant = std::any_of(accepted.begin(), accepted.end(), [&](const std::string& one) {
    return std::find(claims.audiences.begin(), claims.audiences.end(), one) !=
           claims.audiences.end();
  });
  if (!meant) {
    return refuse("the token is for another audience");
  }
  return claims;
}

Expected<std::string> ServiceAccountTokens::issue(ServiceAccountClaims claims) const {
  if (!signer_) {
    return fail(Errc::kInternal, "no key to sign tokens with");
  }
  if (claims.audiences.empty()) {
    claims.audiences = config_.audiences;
  }
  krm::Json audiences = krm::Json::array();
  for (std::string& audience : claims.audiences) {
    audiences.push_back(krm::Json(std::move(audience)));
  }
  krm::Json body = krm::Json::object(
      {{"aud", std::move(audiences)},
       {"exp", krm::Json(claims.expires_at)},
       {"iat", krm::Json(claims.issued_at)},
       {"nbf", krm::Json(claims.issued_at)},
       {"iss", krm::Json(config_.issuers.empty() ? std::string() : config_.issuers.front())},
       {"jti", krm::Json(random_uuid())},
       {"sub", krm::Json(service_account_user(claims.ns, claims.name))}});
  krm::Json& own = body["kubernetes.io"];
  own["namespace"] = claims.ns;
  own.make({"serviceaccount", "name"}) = claims.name;
  own.make({"serviceaccount", "uid"}) = claims.uid;
  if (!claims.cluster.empty()) {
    own["clusterName"] = claims.cluster;
  }
  if (!claims.bound_kind.empty()) {
    krm::Json& bound = own[to_lower(claims.bound_kind)];
    bound["name"] = claims.bound_name;
    bound["uid"] = claims.bound_uid;
  }
  return sign_jwt(body, *signer_);
}

krm::Json ServiceAccountTokens::jwks() const {
  krm::Json keys = krm::Json::array();
  for (const auto& key : config_.keys) {
    keys.push_back(key->jwk());
  }
  return krm::Json::object({{"keys", std::move(keys)}});
}

krm::Json ServiceAccountTokens::openid_configuration(std::string_view jwks_uri) const {
  krm::Json algorithms = krm::Json::array();
  for (const char* algorithm : {"ES256", "RS256"}) {
    if (std::any_of(config_.keys.begin(), config_.keys.end(),
                    [&](const auto& key) { return key->algorithm() == algorithm; })) {
      algorithms.push_back(algorithm);
    }
  }
  return krm::Json::object(
      {{"issuer", krm::Json(config_.issuers.empty() ? std::string() : config_.issuers.front())},
       {"jwks_uri", krm::Json(jwks_uri)},
       {"response_types_supported", krm::Json::array({"id_token"})},
       {"subject_types_supported", krm::Json::array({"public"})},
       {"id_token_signing_alg_values_supported", std::move(algorithms)}});
}

}  // namespace kintsugi::auth
