#include "server/internal/proxy_issuers.h"

#include <string>
#include <utility>
#include <vector>

#include "server/files.h"

namespace kintsugi::server {
namespace {

Expected<auth::JwtIssuers> oidc_issuer(const proxy::AuthenticationConfig::Oidc& oidc) {
  if (oidc.issuer_url.empty() || oidc.client_id.empty()) {
    return fail(Errc::kConfig,
                "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* "
                "flags are set");
  }
  auth::JwtIssuerConfig config;
  config.url = oidc.issuer_url;
  config.audiences = {oidc.client_id};
  if (!oidc.ca_file.empty()) {
    auto text = read_file(oidc.ca_file);
    if (!text) {
      return fail(std::move(text.error()));
    }
    config.ca_pem = std::move(*text);
  }
  for (const std::string& name : oidc.signing_algs) {
    const auto algorithm = auth::parse_jws_algorithm(name);
    if (!algorithm) {
      return fail(Errc::kConfig, "oidc: unsupported signing alg: \"" + name +
                                     "\" (known: " + auth::known_jws_algorithms() + ")");
    }
    config.algorithms.push_back(*algorithm);
  }
  std::string prefix = oidc.username_prefix;
  if (prefix == "-") {
    prefix.clear();
  } else if (prefix.empty() && oidc.username_claim != "email") {
    prefix = oidc.issuer_url + "#";
  }
  config.username = {oidc.username_claim, "", prefix};
  if (!oidc.groups_claim.empty()) {
    config.groups = {oidc.groups_claim, "", oidc.groups_prefix};
  }
  for (const auto& [claim, value] : oidc.required_claims) {
    config.claim_rules.push_back({claim, value, "", ""});
  }
  std::vector<Cause> causes;
  auto issuer = auth::JwtIssuer::make(std::move(config), "jwt[0]", causes);
  if (issuer == nullptr) {
    return fail(Errc::kConfig, causes.front().field + ": " + causes.front().message);
  }
  return auth::JwtIssuers{std::move(issuer)};
}

}  // namespace

Expected<auth::JwtIssuers> load_issuers(const proxy::AuthenticationConfig& config) {
  auth::JwtIssuers issuers;
  if (!config.config_file.empty()) {
    auto text = read_file(config.config_file);
    if (!text) {
      return fail(std::move(text.error()));
    }
    auto parsed = auth::parse_authentication_configuration(*text);
    if (!parsed) {
      return fail(std::move(parsed.error()).at(config.config_file));
    }
    issuers = std::move(*parsed);
  }
  const proxy::AuthenticationConfig::Oidc none;
  if (config.oidc == none) {
    return issuers;
  }
  if (!issuers.empty()) {
    return fail(Errc::kConfig,
                "authentication-config file and oidc-* flags are mutually exclusive");
  }
  auto issuer = oidc_issuer(config.oidc);
  if (!issuer) {
    return fail(std::move(issuer.error()).at("authentication.oidc"));
  }
  return issuer;
}

}  // namespace kintsugi::server
