#include "kinds/controllers/internal/token_secrets.h"

#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "base/time.h"
#include "krm/annotations.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;
constexpr std::string_view kType = "kubernetes.io/service-account-token";
constexpr std::int64_t kLife = std::int64_t{100} * 365 * 86'400;  // [s] ends with its Secret

bool is_token_secret(const Json& secret) { return secret.text({"type"}) == kType; }

std::string_view annotation(const Json& object, std::string_view key) {
  return object.text({"metadata", "annotations", key});
}

/// Sets a text member below `path` where it is absent or, with `force`, other.
bool put(Json& object, std::initializer_list<std::string_view> path, const std::string& value,
         bool force) {
  const std::string_view present = object.text(path);
  if (present == value || (!force && !present.empty())) {
    return false;
  }
  object.make(path) = value;
  return true;
}

}  // namespace

TokenSecrets::TokenSecrets(const apiserver::ControllerContext& context, TokenSecretsParams params)
    : apiserver::ControllerBase(context, "kintsugi-token-secrets"), params_(std::move(params)) {
  if (!params_.now) {
    params_.now = [] { return unix_seconds(); };
  }
}

void TokenSecrets::start() {
  follow("", "secrets", [this](const apiserver::ApiServer::Change& change) {
    if (change.object != nullptr && is_token_secret(*change.object)) {
      queue_.add(
          apiserver::ObjectKey{change.cluster, "", "secrets", change.ns, change.name}.pack());
    }
  });
  follow("", "serviceaccounts", [this](const apiserver::ApiServer::Change& change) {
    if (change.object == nullptr) {
      enqueue_of(change.cluster, change.ns, change.name);
    }
  });
}

void TokenSecrets::add_cluster(std::string_view cluster) {
  reader().list(cluster, "", "secrets", "", [&](const Json& secret) {
    if (is_token_secret(secret)) {
      queue_.add(apiserver::ObjectKey{std::string(cluster), "", "secrets",
                                      std::string(secret.text({"metadata", "namespace"})),
                                      std::string(secret.text({"metadata", "name"}))}
                     .pack());
    }
    return true;
  });
}

void TokenSecrets::enqueue_of(std::string_view cluster, std::string_view ns,
                              std::string_view account) {
  reader().list(cluster, "", "secrets", ns, [&](const Json& secret) {
    if (is_token_secret(secret) &&
        annotation(secret, krm::kServiceAccountNameAnnotation) == account) {
      queue_.add(apiserver::ObjectKey{std::string(cluster), "", "secrets", std::string(ns),
                                      std::string(secret.text({"metadata", "name"}))}
                     .pack());
    }
    return true;
  });
}

void TokenSecrets::process(const std::string& text, Finished finished) {
  const apiserver::ObjectKey key = apiserver::ObjectKey::unpack(text);
  std::optional<Json> secret = get(key);
  if (!secret || apiserver::is_deleted(*secret) || !is_token_secret(*secret)) {
    finished(true);
    return;
  }
  const std::optional<Json> account =
      get({key.cluster, "", "serviceaccounts", key.ns,
           std::string(annotation(*secret, krm::kServiceAccountNameAnnotation))});
  const std::string uid = account ? apiserver::uid_of(*account) : std::string();
  const std::string_view noted = annotation(*secret, krm::kServiceAccountUidAnnotation);
  if (uid.empty() || (!noted.empty() && noted != uid)) {
    remove(key, apiserver::uid_of(*secret),
           [finished = std::move(finished)](Expected<Json> result) {
             finished(apiserver::is_gone(result));
           });
    return;
  }
  fill(key, std::move(*secret), uid, std::move(finished));
}

void TokenSecrets::fill(const apiserver::ObjectKey& key, Json secret,
                        const std::string& account_uid, Finished finished) {
  bool changed = put(secret, {"metadata", "annotations", krm::kServiceAccountUidAnnotation},
                     account_uid, true);
  changed = put(secret, {"data", "namespace"}, base64_encode(key.ns), true) || changed;
  if (!params_.root_ca_pem.empty()) {
    changed = put(secret, {"data", "ca.crt"}, base64_encode(params_.root_ca_pem), true) || changed;
  }
  if (secret.text({"data", "token"}).empty()) {
    auth::ServiceAccountClaims claims;
    claims.ns = key.ns;
    claims.name = annotation(secret, krm::kServiceAccountNameAnnotation);
    claims.uid = account_uid;
    claims.cluster = key.cluster;
    claims.issued_at = params_.now();
    claims.expires_at = claims.issued_at + kLife;
    claims.bound_kind = "Secret";
    claims.bound_name = key.name;
    claims.bound_uid = apiserver::uid_of(secret);
    Expected<std::string> token = params_.issue(claims);
    if (!token) {
      log_warn("no token for a Secret",
               {{"cluster", key.cluster}, {"error", token.error().to_string()}});
      finished(false);
      return;
    }
    changed = put(secret, {"data", "token"}, base64_encode(*token), false) || changed;
  }
  if (!changed) {
    finished(true);
    return;
  }
  update(key, "", std::move(secret), [finished = std::move(finished)](Expected<Json> result) {
    finished(result || result.error().code() == Errc::kNotFound);
  });
}

}  // namespace kintsugi::kinds
