#include "auth/jwt_issuer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "auth/internal/jwt_issuer_rules.h"
#include "cel/token_expression.h"

namespace kintsugi::auth {
namespace {

using cel::TokenValue;
using krm::Json;

constexpr std::int64_t kNotBeforeLeeway = 60;  // [s]

std::vector<std::string> texts(const Json* list) {
  std::vector<std::string> out;
  if (list != nullptr) {
    for (const Json& item : list->items()) {
      out.emplace_back(item.as_string());
    }
  }
  return out;
}

JwtIssuerConfig::Mapping mapping_from(const Json* json) {
  JwtIssuerConfig::Mapping out;
  if (json != nullptr) {
    out.claim = json->text({"claim"});
    out.expression = json->text({"expression"});
    if (const Json* prefix = json->find("prefix"); prefix != nullptr && prefix->is_string()) {
      out.prefix = prefix->as_string();
    }
  }
  return out;
}

std::vector<JwtIssuerConfig::Rule> rules_from(const Json* list) {
  std::vector<JwtIssuerConfig::Rule> out;
  if (list != nullptr) {
    for (const Json& rule : list->items()) {
      out.push_back({std::string(rule.text({"claim"})), std::string(rule.text({"requiredValue"})),
                     std::string(rule.text({"expression"})), std::string(rule.text({"message"}))});
    }
  }
  return out;
}

tl::unexpected<Error> refused(std::string why) { return fail(Errc::kUnauthorized, std::move(why)); }

/// A claim of text; null counts as "", as for Go.
Expected<std::string> text_claim(const Json& claims, const std::string& name) {
  const Json* value = claims.find(name);
  if (value == nullptr) {
    return refused("claim " + name + " is not present");
  }
  if (!value->is_string() && !value->is_null()) {
    return refused("claim " + name + " is no text");
  }
  return std::string(value->as_string());
}

/// A list of texts, or one text.
Expected<std::vector<std::string>> list_claim(const Json& value, const std::string& name) {
  if (value.is_string()) {
    return std::vector<std::string>{std::string(value.as_string())};
  }
  const bool good = value.is_null() ||
                    (value.is_array() &&
                     std::all_of(value.items().begin(), value.items().end(), [](const Json& item) {
                       return item.is_string() || item.is_null();
                     }));
  if (!good) {
    return refused("claim " + name + " is no list of texts");
  }
  return texts(&value);
}

/// What an expression gives as a list: empty texts do not count.
Expected<std::vector<std::string>> list_value(TokenValue value) {
  if (value.kind == TokenValue::Kind::kError) {
    return refused(std::move(value.error));
  }
  if (value.kind == TokenValue::Kind::kNull) {
    return std::vector<std::string>();
  }
  if (value.kind != TokenValue::Kind::kString && value.kind != TokenValue::Kind::kStrings) {
    return refused("expression must return a string or a list of strings");
  }
  std::erase(value.strings, "");
  return std::move(value.strings);
}

Expected<std::string> text_value(TokenValue value) {
  if (value.kind == TokenValue::Kind::kError) {
    return refused(std::move(value.error));
  }
  if (value.kind != TokenValue::Kind::kString) {
    return refused("expression must return a string");
  }
  return std::move(value.strings.front());
}

std::optional<std::int64_t> time_claim(const Json& claims, std::string_view name) {
  const Json* value = claims.find(name);
  if (value == nullptr || !value->is_number() || !(std::fabs(value->as_double()) < 1e15)) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(std::floor(value->as_double()));
}

Expected<void> check_rules(const std::vector<internal::CompiledRule>& rules, const Json& value,
                           std::uint64_t& budget) {
  for (const internal::CompiledRule& rule : rules) {
    const TokenValue found = cel::evaluate_token_expression(*rule.expression, value, budget);
    if (found.kind == TokenValue::Kind::kError) {
      return refused(found.error);
    }
    if (found.kind != TokenValue::Kind::kBool || !found.truth) {
      return refused("validation expression '" + rule.source + "' failed: " + rule.message);
    }
  }
  return {};
}

/// The user as expressions see it: without what is empty.
Json user_json(const UserInfo& user) {
  Json out = Json::object({{"username", Json(user.name)}});
  if (!user.uid.empty()) {
    out["uid"] = user.uid;
  }
  for (const std::string& group : user.groups) {
    out["groups"].push_back(group);
  }
  for (const auto& [key, values] : user.extra) {
    Json& list = out.make({"extra", key});
    for (const std::string& value : values) {
      list.push_back(value);
    }
  }
  return out;
}

}  // namespace

struct JwtIssuer::Compiled : internal::CompiledIssuer {};

JwtIssuerConfig issuer_from_json(const Json& element) {
  JwtIssuerConfig config;
  config.url = element.text({"issuer", "url"});
  config.discovery_url = element.text({"issuer", "discoveryURL"});
  config.ca_pem = element.text({"issuer", "certificateAuthority"});
  config.audiences = texts(element.at({"issuer", "audiences"}));
  config.audience_match_policy = element.text({"issuer", "audienceMatchPolicy"});
  config.claim_rules = rules_from(element.find("claimValidationRules"));
  config.username = mapping_from(element.at({"claimMappings", "username"}));
  config.groups = mapping_from(element.at({"claimMappings", "groups"}));
  config.uid = mapping_from(element.at({"claimMappings", "uid"}));
  if (const Json* extra = element.at({"claimMappings", "extra"})) {
    for (const Json& one : extra->items()) {
      config.extra.push_back(
          {std::string(one.text({"key"})), std::string(one.text({"valueExpression"}))});
    }
  }
  config.user_rules = rules_from(element.find("userValidationRules"));
  return config;
}

JwtIssuer::JwtIssuer(JwtIssuerConfig config)
    : config_(std::move(config)), compiled_(std::make_unique<Compiled>()) {}
JwtIssuer::~JwtIssuer() = default;

std::shared_ptr<const JwtIssuer> JwtIssuer::make(JwtIssuerConfig config, const std::string& field,
                                                 std::vector<Cause>& causes) {
  const std::size_t before = causes.size();
  std::shared_ptr<JwtIssuer> issuer(new JwtIssuer(std::move(config)));
  internal::compile_issuer(issuer->config_, field, *issuer->compiled_, causes);
  if (causes.size() != before) {
    return nullptr;
  }
  return issuer;
}

std::string JwtIssuer::discovery_url() const {
  if (!config_.discovery_url.empty()) {
    return config_.discovery_url;
  }
  std::string_view url = config_.url;
  if (url.ends_with('/')) {
    url.remove_suffix(1);
  }
  return std::string(url) + "/.well-known/openid-configuration";
}

std::string_view token_issuer(const Json& claims) {
  const std::string_view issuer = claims.text({"iss"});
  return issuer == "accounts.google.com" ? "https://accounts.google.com" : issuer;
}

Expected<JwtIssuer::Identity> JwtIssuer::identify(const Json& claims, std::int64_t now) const {
  if (token_issuer(claims) != config_.url) {
    return refused("the token is of another issuer");
  }
  const Json* audience = claims.find("aud");
  const auto audiences = list_claim(audience == nullptr ? Json() : *audience, "aud");
  if (!audiences) {
    return fail(audiences.error().clone());
  }
  const auto is_ours = [this](const std::string& one) {
    return std::find(config_.audiences.begin(), config_.audiences.end(), one) !=
           config_.audiences.end();
  };
  if (std::none_of(audiences->begin(), audiences->end(), is_ours)) {
    return refused("the token is for another audience");
  }
  const auto expires_at = time_claim(claims, "exp");
  if (!expires_at || *expires_at < now) {
    return refused("the token has expired");
  }
  if (const auto not_before = time_claim(claims, "nbf");
      not_before && now + kNotBeforeLeeway < *not_before) {
    return refused("the token is not valid yet");
  }

  std::uint64_t budget = config_.cost_limit;
  const auto evaluate = [&claims, &budget](const cel::TokenExpressionPtr& expression) {
    return cel::evaluate_token_expression(*expression, claims, budget);
  };
  Identity identity;
  identity.expires_at = *expires_at;
  UserInfo& user = identity.user;
  auto name = compiled_->username != nullptr ? text_value(evaluate(compiled_->username))
                                             : text_claim(claims, config_.username.claim);
  if (!name) {
    return fail(std::move(name.error()));
  }
  if (compiled_->username == nullptr && config_.username.claim == "email") {
    const Json* verified = claims.find("email_verified");
    if (verified != nullptr && !verified->as_bool()) {
      return refused("the email address is not verified");
    }
  }
  if (name->empty()) {
    return refused("the user name is empty");
  }
  user.name = config_.username.prefix.value_or("") + *name;

  if (compiled_->groups != nullptr) {
    auto groups = list_value(evaluate(compiled_->groups));
    if (!groups) {
      return fail(std::move(groups.error()));
    }
    user.groups = std::move(*groups);
  } else if (const Json* value =
                 config_.groups.claim.empty() ? nullptr : claims.find(config_.groups.claim)) {
    auto groups = list_claim(*value, config_.groups.claim);
    if (!groups) {
      return fail(std::move(groups.error()));
    }
    for (const std::string& group : *groups) {
      user.groups.push_back(config_.groups.prefix.value_or("") + group);
    }
  }

  if (compiled_->uid != nullptr || !config_.uid.claim.empty()) {
    auto uid = compiled_->uid != nullptr ? text_value(evaluate(compiled_->uid))
                                         : text_claim(claims, config_.uid.claim);
    if (!uid) {
      return fail(std::move(uid.error()));
    }
    user.uid = std::move(*uid);
  }
  for (std::size_t i = 0; i < compiled_->extra.size(); ++i) {
    auto values = list_value(evaluate(compiled_->extra[i]));
    if (!values) {
      return fail(std::move(values.error()));
    }
    if (!values->empty()) {
      user.extra.emplace_back(config_.extra[i].key, std::move(*values));
    }
  }
  if (const std::string_view id = claims.text({"jti"}); !id.empty()) {
    user.extra.emplace_back(kExtraCredentialId, std::vector<std::string>{"JTI=" + std::string(id)});
  }

  for (const JwtIssuerConfig::Rule& rule : config_.claim_rules) {
    if (rule.claim.empty()) {
      continue;
    }
    auto value = text_claim(claims, rule.claim);
    if (!value) {
      return fail(std::move(value.error()));
    }
    if (*value != rule.required_value) {
      return refused("required claim " + rule.claim + " has another value");
    }
  }
  if (auto result = check_rules(compiled_->claim_rules, claims, budget); !result) {
    return fail(std::move(result.error()));
  }
  if (!compiled_->user_rules.empty()) {
    if (auto result = check_rules(compiled_->user_rules, user_json(user), budget); !result) {
      return fail(std::move(result.error()));
    }
  }
  return identity;
}

}  // namespace kintsugi::auth
