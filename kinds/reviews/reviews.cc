#include "kinds/reviews/reviews.h"

#include <string>
#include <utility>

#include "base/time.h"
#include "kinds/reviews/internal/reviews_internal.h"
#include "krm/go_text.h"
#include "krm/status.h"
#include "krm/strict.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;
constexpr std::string_view kGroup = "authentication.k8s.io";
constexpr std::int64_t kDefaultLife = 3600;                   // [s]
constexpr std::int64_t kShortestLife = 600;                   // [s]
constexpr std::int64_t kLongestLife = std::int64_t{1} << 32;  // [s]

Json texts_to_json(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) {
    list.push_back(Json(text));
  }
  return list;
}

std::vector<std::string> texts_of(const Json* list) {
  std::vector<std::string> out;
  if (list != nullptr) {
    for (const Json& item : list->items()) {
      out.emplace_back(item.as_string());
    }
  }
  return out;
}

Json user_to_json(const auth::UserInfo& user) {
  Json out = Json::object();
  if (!user.name.empty()) {
    out["username"] = user.name;
  }
  if (!user.uid.empty()) {
    out["uid"] = user.uid;
  }
  if (!user.groups.empty()) {
    out["groups"] = texts_to_json(user.groups);
  }
  for (const auto& [key, values] : user.extra) {
    out["extra"][key] = texts_to_json(values);
  }
  return out;
}

apiserver::ResourcePtr self_review() {
  auto definition = review_definition(kGroup, "SelfSubjectReview", false);
  definition->hooks.answer = [](const apiserver::WriteContext& context, Json object,
                                apiserver::Hooks::CreateDone done) {
    finish_review(object, Json::object({{"userInfo", user_to_json(context.user)}}));
    object["metadata"] = Json::object({{"creationTimestamp", rfc3339(unix_seconds())}});
    done(std::move(object));
  };
  return definition;
}

apiserver::ResourcePtr token_review(std::shared_ptr<auth::TokenAuthenticator> tokens) {
  auto definition = review_definition(kGroup, "TokenReview", false);
  definition->hooks.answer = [tokens = std::move(tokens)](const apiserver::WriteContext& context,
                                                          Json object,
                                                          apiserver::Hooks::CreateDone done) {
    const std::string token(object.text({"spec", "token"}));
    if (token.empty()) {
      done(fail(krm::bad_request("token is required for TokenReview in authentication")));
      return;
    }
    const auto refuse = [](Json& review, std::string_view why) {
      finish_review(review, Json::object({{"user", Json::object()}, {"error", why}}));
    };
    if (!tokens) {
      refuse(object, "invalid bearer token");
      done(std::move(object));
      return;
    }
    const std::vector<std::string> audiences = texts_of(object.at({"spec", "audiences"}));
    auth::authenticate_bounded(
        *tokens, std::make_shared<const auth::Bearer>(token), audiences, context.cluster,
        [object = std::move(object), done = std::move(done),
         refuse](Expected<std::optional<auth::TokenAuthenticator::Result>> result) mutable {
          if (!result && result.error().code() != Errc::kUnauthorized) {
            refuse(object, result.error().message());
          } else if (!result || !result->has_value()) {
            refuse(object, "invalid bearer token");
          } else {
            auth::add_authenticated_group((*result)->user);
            Json status =
                Json::object({{"authenticated", true}, {"user", user_to_json((*result)->user)}});
            if (!(*result)->audiences.empty()) {
              status["audiences"] = texts_to_json((*result)->audiences);
            }
            finish_review(object, std::move(status));
          }
          done(std::move(object));
        });
  };
  return definition;
}

/// Finds the object that a token is to be bound to and notes it in `claims`.
Expected<void> bind_object(const apiserver::WriteContext& context, const Json& reference,
                           auth::ServiceAccountClaims& claims) {
  const std::string_view kind = reference.text({"kind"});
  const std::string_view version = reference.text({"apiVersion"});
  const std::string_view name = reference.text({"name"});
  // Of the core group, whatever version is given.
  if ((kind != "Secret" && kind != "Pod") || version.find('/') != std::string_view::npos) {
    const std::size_t slash = version.find('/');
    return fail(krm::bad_request("cannot bind token to object of type " +
                                 std::string(slash == std::string_view::npos ? "/" : "") +
                                 std::string(version) + ", Kind=" + std::string(kind)));
  }
  const std::string_view resource = kind == "Secret" ? "secrets" : "pods";
  const std::optional<Json> object =
      context.reader.get(context.cluster, "", resource, claims.ns, name);
  if (!object) {
    return fail(krm::not_found("", resource, name));
  }
  const std::string_view uid = object->text({"metadata", "uid"});
  const std::string_view wanted = reference.text({"uid"});
  if (!wanted.empty() && wanted != uid) {
    return fail(krm::conflict("", kind, name,
                              "the UID in the bound object reference (" + std::string(wanted) +
                                  ") does not match the UID in record. The object might have been "
                                  "deleted and then recreated"));
  }
  claims.bound_kind = kind;
  claims.bound_name = name;
  claims.bound_uid = uid;
  return {};
}

/// What a request says of itself must be what its path says.
Expected<void> check_token_metadata(const Json& body, std::string_view ns, std::string_view name) {
  const std::string_view given_ns = body.text({"metadata", "namespace"});
  if (!given_ns.empty() && given_ns != ns) {
    return fail(
        krm::bad_request("the namespace of the provided object does not match the namespace sent "
                         "on the request"));
  }
  const std::string_view given = body.text({"metadata", "name"});
  if (!given.empty() && given != name) {
    return fail(
        krm::invalid(kGroup, "TokenRequest", name,
                     {krm::field_invalid("metadata.name", Json(given),
                                         "must match the service account name if specified")}));
  }
  return {};
}

Expected<Json> request_token(const ReviewParams& params, const apiserver::WriteContext& context,
                             std::string_view ns, std::string_view name, Json body) {
  const std::optional<Json> account =
      context.reader.get(context.cluster, "", "serviceaccounts", ns, name);
  if (!account) {
    return fail(krm::not_found("", "serviceaccounts", name));
  }
  if (const std::string_view kind = body.text({"kind"}); !kind.empty() && kind != "TokenRequest") {
    const std::string_view version = body.text({"apiVersion"});
    return fail(krm::bad_request(
        std::string(kind) + " in version " +
        krm::go_quote(
            version.substr(version.find('/') == version.npos ? 0 : version.find('/') + 1)) +
        " cannot be handled as a TokenRequest: " + krm::not_registered(version, kind)));
  }
  Json shaped = body;
  if (Expected<void> typed = krm::decode_typed(
          *krm::builtin_schema("authentication.k8s.io/v1", "TokenRequest"), shaped);
      !typed) {
    return fail(
        krm::bad_request("TokenRequest in version \"v1\" cannot be handled as a TokenRequest: " +
                         std::string(typed.error().message())));
  }
  if (Expected<void> same = check_token_metadata(body, ns, name); !same) {
    return fail(std::move(same.error()));
  }
  const Json* asked = body.at({"spec", "expirationSeconds"});
  const std::int64_t life = asked == nullptr ? kDefaultLife : asked->as_integer(kDefaultLife);
  std::vector<Cause> causes;
  if (life < kShortestLife) {
    causes.push_back(krm::field_invalid("spec.expirationSeconds", Json(life),
                                        "may not specify a duration less than 10 minutes"));
  } else if (life > kLongestLife) {
    causes.push_back(krm::field_invalid("spec.expirationSeconds", Json(life),
                                        "may not specify a duration larger than 2^32 seconds"));
  }
  if (!causes.empty()) {
    return fail(krm::invalid(kGroup, "TokenRequest", "", std::move(causes)));
  }

  auth::ServiceAccountClaims claims;
  claims.ns = ns;
  claims.name = name;
  claims.uid = account->text({"metadata", "uid"});
  claims.cluster = context.cluster;
  claims.issued_at = params.now();
  claims.expires_at = claims.issued_at + life;
  claims.audiences = texts_of(body.at({"spec", "audiences"}));
  const Json* reference = body.at({"spec", "boundObjectRef"});
  if (reference != nullptr && !reference->is_null()) {
    Expected<void> bound = bind_object(context, *reference, claims);
    if (!bound) {
      return fail(std::move(bound.error()));
    }
  }
  if (!params.issuer) {
    return fail(krm::internal("no key to sign tokens with"));
  }
  if (claims.audiences.empty()) {
    claims.audiences = params.issuer->default_audiences();
  }
  Expected<std::string> token = params.issuer->issue(claims);
  if (!token) {
    return fail(krm::internal(token.error().message()));
  }
  body["apiVersion"] = std::string(kGroup) + "/v1";
  body["kind"] = "TokenRequest";
  body.make({"metadata", "name"}) = name;
  body.make({"metadata", "namespace"}) = ns;
  body.make({"metadata", "uid"}) = account->text({"metadata", "uid"});
  body.make({"metadata", "creationTimestamp"}) = rfc3339(claims.issued_at);
  body.make({"spec", "audiences"}) = texts_to_json(claims.audiences);
  body.make({"spec", "expirationSeconds"}) = life;
  body.make({"spec", "boundObjectRef"});
  body["status"] = Json::object({{"token", Json(std::move(*token))},
                                 {"expirationTimestamp", Json(rfc3339(claims.expires_at))}});
  return body;
}

}  // namespace

std::vector<apiserver::ResourcePtr> review_kinds(const ReviewParams& params) {
  std::vector<apiserver::ResourcePtr> kinds = {self_review(), token_review(params.tokens)};
  for (apiserver::ResourcePtr& kind : access_review_kinds(params)) {
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

apiserver::ResourcePtr with_token_subresource(apiserver::ResourcePtr service_accounts,
                                              const ReviewParams& params) {
  auto copy = std::make_shared<apiserver::ResourceDef>(*service_accounts);
  apiserver::ResourceDef::ExtraSubresource token;
  token.name = "token";
  token.kind = "TokenRequest";
  token.group = kGroup;
  token.version = "v1";
  token.verbs = {"create"};
  ReviewParams kept = params;
  if (!kept.now) {
    kept.now = [] { return unix_seconds(); };
  }
  token.answer = [kept](const apiserver::WriteContext& context, std::string_view ns,
                        std::string_view name, Json body, apiserver::Hooks::CreateDone done) {
    done(request_token(kept, context, ns, name, std::move(body)));
  };
  copy->subresources.push_back(std::move(token));
  return copy;
}

auth::AccountCheck make_account_check(const apiserver::ObjectReader& reader,
                                      std::string default_cluster) {
  return [&reader, default_cluster = std::move(default_cluster)](
             const auth::ServiceAccountClaims& claims, std::function<void(Expected<void>)> done) {
    const std::string& cluster = claims.cluster.empty() ? default_cluster : claims.cluster;
    const auto lives = [&](std::string_view resource, std::string_view name, std::string_view uid) {
      const std::optional<Json> object = reader.get(cluster, "", resource, claims.ns, name);
      return object && object->text({"metadata", "uid"}) == uid;
    };
    if (!lives("serviceaccounts", claims.name, claims.uid)) {
      done(fail(Errc::kUnauthorized, "the service account of the token is gone"));
    } else if (!claims.bound_kind.empty() &&
               !lives(claims.bound_kind == "Secret" ? "secrets" : "pods", claims.bound_name,
                      claims.bound_uid)) {
      done(fail(Errc::kUnauthorized, "the object that the token is bound to is gone"));
    } else {
      done({});
    }
  };
}

}  // namespace kintsugi::kinds
