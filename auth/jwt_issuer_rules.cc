#include "auth/internal/jwt_issuer_rules.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/strings.h"
#include "krm/names.h"
#include "krm/status.h"
#include "krm/yaml.h"
#include "net/tls.h"
#include "net/upstream.h"

namespace kintsugi::auth {
namespace internal {
namespace {

using Causes = std::vector<Cause>;
using Config = JwtIssuerConfig;

constexpr std::size_t kMaxIssuers = 64;
constexpr std::string_view kBoth = "claim and expression can't both be set";
constexpr std::string_view kMatchAny = "MatchAny";
constexpr std::string_view kPathCharacters = "/-._~%!$&'()*+,;=:";

void judge_url(const std::string& text, const std::string& field, Causes& causes) {
  const std::size_t before = causes.size();
  const std::size_t scheme = text.find("://");
  const std::string_view rest =
      scheme == std::string::npos ? std::string_view() : std::string_view(text).substr(scheme + 3);
  const std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
  const std::size_t hash = text.find('#');
  const std::size_t query = text.find('?');
  if (scheme == std::string::npos || to_lower(text.substr(0, scheme)) != "https") {
    causes.push_back(krm::field_invalid(field, text, "URL scheme must be https"));
  }
  if (host.find('@') != std::string_view::npos) {
    causes.push_back(
        krm::field_invalid(field, text, "URL must not contain a username or password"));
  }
  if (query < hash && query + 1 < std::min(hash, text.size())) {
    causes.push_back(krm::field_invalid(field, text, "URL must not contain a query"));
  }
  if (hash != std::string::npos && hash + 1 < text.size()) {
    causes.push_back(krm::field_invalid(field, text, "URL must not contain a fragment"));
  }
  if (causes.size() == before) {
    if (const auto url = net::Url::parse(text); !url) {
      causes.push_back(krm::field_invalid(field, text, url.error().message()));
    }
  }
}

std::string_view without_slashes(std::string_view text) {
  while (text.ends_with('/')) {
    text.remove_suffix(1);
  }
  return text;
}

void judge_audiences(const Config& config, const std::string& field, Causes& causes) {
  const std::string at = field + ".audiences";
  if (config.audiences.empty()) {
    causes.push_back(krm::field_required(at, "at least one " + at + " is required"));
    return;
  }
  std::set<std::string> seen;
  for (std::size_t i = 0; i < config.audiences.size(); ++i) {
    const std::string& audience = config.audiences[i];
    const std::string item = at + "[" + std::to_string(i) + "]";
    if (audience.empty()) {
      causes.push_back(krm::field_required(item));
    }
    if (!seen.insert(audience).second) {
      causes.push_back(krm::field_duplicate(item, audience));
    }
  }
  const std::string& policy = config.audience_match_policy;
  const bool many = config.audiences.size() > 1;
  if (policy != kMatchAny && (many || !policy.empty())) {
    causes.push_back(krm::field_invalid(
        field + ".audienceMatchPolicy", policy,
        many ? "audienceMatchPolicy must be MatchAny for multiple audiences"
             : "audienceMatchPolicy must be empty or MatchAny for single audience"));
  }
}

void judge_issuer(const Config& config, const std::string& field, Causes& causes) {
  if (config.url.empty()) {
    causes.push_back(krm::field_required(field + ".url"));
  } else {
    judge_url(config.url, field + ".url", causes);
  }
  const std::string& discovery = config.discovery_url;
  if (!discovery.empty()) {
    if (!config.url.empty() && without_slashes(config.url) == without_slashes(discovery)) {
      causes.push_back(krm::field_invalid(field + ".discoveryURL", discovery,
                                          "discoveryURL must be different from URL"));
    }
    judge_url(discovery, field + ".discoveryURL", causes);
  }
  judge_audiences(config, field, causes);
  if (!config.ca_pem.empty()) {
    net::TlsParams params;
    params.ca_pem = config.ca_pem;
    if (!net::TlsContext::client(params)) {
      causes.push_back(
          krm::field_invalid(field + ".certificateAuthority", "<omitted>",
                             "data does not contain any valid RSA or ECDSA certificates"));
    }
  }
}

/// Null when it is refused.
cel::TokenExpressionPtr compile(const std::string& source, cel::TokenVariable variable,
                                bool must_be_bool, const std::string& field, Causes& causes) {
  std::string fault;
  auto expression = cel::compile_token_expression(source, variable, must_be_bool, fault);
  if (expression == nullptr) {
    causes.push_back(krm::field_invalid(field, source, fault));
  }
  return expression;
}

cel::TokenExpressionPtr compile_claims(const std::string& source, const std::string& field,
                                       Causes& causes) {
  return compile(source, cel::TokenVariable::kClaims, false, field, causes);
}

void judge_claim_rules(const Config& config, const std::string& field, CompiledIssuer& out,
                       Causes& causes) {
  std::set<std::string> claims, expressions;
  for (std::size_t i = 0; i < config.claim_rules.size(); ++i) {
    const Config::Rule& rule = config.claim_rules[i];
    const std::string at = field + "[" + std::to_string(i) + "]";
    if (!rule.claim.empty() && !rule.expression.empty()) {
      causes.push_back(krm::field_invalid(at, rule.claim, kBoth));
    } else if (!rule.claim.empty()) {
      if (!rule.message.empty()) {
        causes.push_back(krm::field_invalid(at + ".message", rule.message,
                                            "may not be specified when claim is set"));
      }
      if (!claims.insert(rule.claim).second) {
        causes.push_back(krm::field_duplicate(at + ".claim", rule.claim));
      }
    } else if (rule.expression.empty()) {
      causes.push_back(krm::field_required(at, "claim or expression is required"));
    } else {
      if (!rule.required_value.empty()) {
        causes.push_back(krm::field_invalid(at + ".requiredValue", rule.required_value,
                                            "may not be specified when expression is set"));
      }
      if (!expressions.insert(rule.expression).second) {
        causes.push_back(krm::field_duplicate(at + ".expression", rule.expression));
        continue;
      }
      if (auto made = compile(rule.expression, cel::TokenVariable::kClaims, true,
                              at + ".expression", causes)) {
        out.claim_rules.push_back({std::move(made), rule.expression, rule.message});
      }
    }
  }
}

cel::TokenExpressionPtr judge_mapping(const Config::Mapping& mapping, bool required,
                                      const std::string& field, Causes& causes) {
  if (!mapping.expression.empty() && !mapping.claim.empty()) {
    causes.push_back(krm::field_invalid(field, "", kBoth));
    return nullptr;
  }
  if (!mapping.expression.empty()) {
    if (mapping.prefix) {
      causes.push_back(krm::field_invalid(field + ".prefix", *mapping.prefix,
                                          "may not be specified when expression is set"));
    }
    return compile_claims(mapping.expression, field + ".expression", causes);
  }
  if (!mapping.claim.empty()) {
    if (!mapping.prefix) {
      causes.push_back(
          krm::field_required(field + ".prefix",
                              "prefix is required when claim is set. It can be set to an empty "
                              "string to disable prefixing"));
    }
  } else if (required) {
    causes.push_back(krm::field_required(field, "claim or expression is required"));
  }
  return nullptr;
}

void judge_key(const std::string& key, const std::string& field, Causes& causes) {
  const std::size_t slash = key.find('/');
  if (key.empty()) {
    causes.push_back(krm::field_required(field));
  } else if (slash == std::string::npos || slash == 0 || slash + 1 == key.size()) {
    causes.push_back(
        krm::field_invalid(field, key, "must be a domain-prefixed path (such as \"acme.io/foo\")"));
  } else {
    const std::string domain = key.substr(0, slash), path = key.substr(slash + 1);
    for (const std::string& fault : krm::check_dns1123_subdomain(domain)) {
      causes.push_back(krm::field_invalid(field, domain, fault));
    }
    const bool clean = std::all_of(path.begin(), path.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             kPathCharacters.find(c) != std::string_view::npos;
    });
    if (!clean) {
      causes.push_back(krm::field_invalid(field, path,
                                          "Invalid path (regex used for validation is "
                                          "'[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"));
    }
  }
  if (key != to_lower(key)) {
    causes.push_back(krm::field_invalid(field, key, "must be lowercase"));
  }
  const std::string domain = slash == std::string::npos ? "" : key.substr(0, slash);
  const bool reserved = domain == "k8s.io" || domain == "kubernetes.io" ||
                        domain.ends_with(".k8s.io") || domain.ends_with(".kubernetes.io");
  if (reserved) {
    causes.push_back(krm::field_invalid(
        field, key, "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"));
  }
}

void judge_extra(const Config& config, const std::string& field, CompiledIssuer& out,
                 Causes& causes) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < config.extra.size(); ++i) {
    const Config::Extra& extra = config.extra[i];
    const std::string at = field + "[" + std::to_string(i) + "]";
    judge_key(extra.key, at + ".key", causes);
    if (!seen.insert(extra.key).second) {
      causes.push_back(krm::field_duplicate(at + ".key", extra.key));
    } else if (extra.expression.empty()) {
      causes.push_back(krm::field_required(at + ".valueExpression"));
    } else if (auto made = compile_claims(extra.expression, at + ".valueExpression", causes)) {
      out.extra.push_back(std::move(made));
    }
  }
}

/// An address that nobody has verified must not become a name.
void judge_email(const Config& config, const std::string& field, const CompiledIssuer& out,
                 Causes& causes) {
  const auto verifies = [](const cel::TokenExpressionPtr& expression) {
    return expression != nullptr && cel::reads_claim(*expression, "email_verified");
  };
  if (out.username == nullptr || !cel::reads_claim(*out.username, "email") ||
      verifies(out.username) || std::any_of(out.extra.begin(), out.extra.end(), verifies) ||
      std::any_of(out.claim_rules.begin(), out.claim_rules.end(),
                  [&](const CompiledRule& rule) { return verifies(rule.expression); })) {
    return;
  }
  causes.push_back(krm::field_invalid(
      field + ".username.expression", config.username.expression,
      "claims.email_verified must be used in claimMappings.username.expression or "
      "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when "
      "claims.email is used in claimMappings.username.expression"));
}

void judge_mappings(const Config& config, const std::string& field, CompiledIssuer& out,
                    Causes& causes) {
  out.username = judge_mapping(config.username, true, field + ".username", causes);
  out.groups = judge_mapping(config.groups, false, field + ".groups", causes);
  if (!config.uid.claim.empty() && !config.uid.expression.empty()) {
    causes.push_back(krm::field_invalid(field + ".uid", "", kBoth));
  } else if (!config.uid.expression.empty()) {
    out.uid = compile_claims(config.uid.expression, field + ".uid.expression", causes);
  }
  judge_extra(config, field + ".extra", out, causes);
  judge_email(config, field, out, causes);
}

void judge_user_rules(const Config& config, const std::string& field, CompiledIssuer& out,
                      Causes& causes) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < config.user_rules.size(); ++i) {
    const Config::Rule& rule = config.user_rules[i];
    const std::string at = field + "[" + std::to_string(i) + "].expression";
    if (rule.expression.empty()) {
      causes.push_back(krm::field_required(at));
    } else if (!seen.insert(rule.expression).second) {
      causes.push_back(krm::field_duplicate(at, rule.expression));
    } else if (auto made = compile(rule.expression, cel::TokenVariable::kUser, true, at, causes)) {
      out.user_rules.push_back({std::move(made), rule.expression, rule.message});
    }
  }
}

}  // namespace

void compile_issuer(const Config& config, const std::string& field, CompiledIssuer& out,
                    Causes& causes) {
  judge_issuer(config, field + ".issuer", causes);
  judge_claim_rules(config, field + ".claimValidationRules", out, causes);
  judge_mappings(config, field + ".claimMappings", out, causes);
  judge_user_rules(config, field + ".userValidationRules", out, causes);
}

}  // namespace internal

JwtIssuers issuers_from_json(const krm::Json& list, const std::string& field,
                             std::vector<Cause>& causes, std::uint64_t cost_limit) {
  const std::size_t before = causes.size();
  if (list.size() > internal::kMaxIssuers) {
    causes.push_back(krm::field_too_many(field, list.size(), internal::kMaxIssuers));
    return {};
  }
  JwtIssuers issuers;
  std::set<std::string> urls, discoveries;
  for (std::size_t i = 0; i < list.items().size(); ++i) {
    const std::string at = field + "[" + std::to_string(i) + "]";
    JwtIssuerConfig config = issuer_from_json(list.items()[i]);
    config.cost_limit = cost_limit == 0 ? config.cost_limit : cost_limit;
    const std::string url = config.url, discovery = config.discovery_url;
    issuers.push_back(JwtIssuer::make(std::move(config), at, causes));
    if (!urls.insert(url).second) {
      causes.push_back(krm::field_duplicate(at + ".issuer.url", url));
    }
    if (!discovery.empty() && !discoveries.insert(discovery).second) {
      causes.push_back(krm::field_duplicate(at + ".issuer.discoveryURL", discovery));
    }
  }
  return causes.size() == before ? issuers : JwtIssuers();
}

namespace {

/// The fields of AuthenticationConfiguration: paths without indexes.
constexpr std::string_view kFields[] = {"apiVersion",
                                        "kind",
                                        "anonymous",
                                        "anonymous.enabled",
                                        "anonymous.conditions",
                                        "anonymous.conditions.path",
                                        "jwt",
                                        "jwt.issuer",
                                        "jwt.issuer.url",
                                        "jwt.issuer.discoveryURL",
                                        "jwt.issuer.certificateAuthority",
                                        "jwt.issuer.audiences",
                                        "jwt.issuer.audienceMatchPolicy",
                                        "jwt.claimValidationRules",
                                        "jwt.claimValidationRules.claim",
                                        "jwt.claimValidationRules.requiredValue",
                                        "jwt.claimValidationRules.expression",
                                        "jwt.claimValidationRules.message",
                                        "jwt.claimMappings",
                                        "jwt.claimMappings.username",
                                        "jwt.claimMappings.username.claim",
                                        "jwt.claimMappings.username.prefix",
                                        "jwt.claimMappings.username.expression",
                                        "jwt.claimMappings.groups",
                                        "jwt.claimMappings.groups.claim",
                                        "jwt.claimMappings.groups.prefix",
                                        "jwt.claimMappings.groups.expression",
                                        "jwt.claimMappings.uid",
                                        "jwt.claimMappings.uid.claim",
                                        "jwt.claimMappings.uid.expression",
                                        "jwt.claimMappings.extra",
                                        "jwt.claimMappings.extra.key",
                                        "jwt.claimMappings.extra.valueExpression",
                                        "jwt.userValidationRules",
                                        "jwt.userValidationRules.expression",
                                        "jwt.userValidationRules.message"};

/// The first field that is not one of them, "" when there is none. Depth: that of the table.
std::string unknown_field(const krm::Json& value, const std::string& name,
                          const std::string& path) {
  for (const krm::JsonMember& member : value.members()) {
    const std::string below = name.empty() ? member.key : name + "." + member.key;
    const std::string at = path.empty() ? member.key : path + "." + member.key;
    if (std::find(std::begin(kFields), std::end(kFields), below) == std::end(kFields)) {
      return at;
    }
    if (std::string found = unknown_field(member.value, below, at); !found.empty()) {
      return found;
    }
  }
  for (std::size_t i = 0; i < value.items().size(); ++i) {
    if (std::string found =
            unknown_field(value.items()[i], name, path + "[" + std::to_string(i) + "]");
        !found.empty()) {
      return found;
    }
  }
  return {};
}

}  // namespace

Expected<JwtIssuers> parse_authentication_configuration(std::string_view text) {
  constexpr std::string_view kGroup = "apiserver.config.k8s.io/";
  krm::YamlReport report;
  const auto document = krm::parse_yaml(text, &report);
  if (!document) {
    return fail(Errc::kConfig, std::string(document.error().message()));
  }
  const std::string_view version = document->text({"apiVersion"});
  if (document->text({"kind"}) != "AuthenticationConfiguration" || !version.starts_with(kGroup)) {
    return fail(Errc::kConfig, "no AuthenticationConfiguration of apiserver.config.k8s.io");
  }
  if (const std::string_view name = version.substr(kGroup.size());
      name != "v1" && name != "v1beta1" && name != "v1alpha1") {
    return fail(Errc::kConfig, "apiVersion " + std::string(version) + " is not known");
  }
  if (!report.duplicate_keys.empty()) {
    return fail(Errc::kConfig, "strict decoding error: " + report.duplicate_keys.front());
  }
  if (const std::string field = unknown_field(*document, "", ""); !field.empty()) {
    return fail(Errc::kConfig, "strict decoding error: unknown field \"" + field + "\"");
  }
  std::vector<Cause> causes;
  const krm::Json* list = document->find("jwt");
  JwtIssuers issuers = issuers_from_json(list == nullptr ? krm::Json() : *list, "jwt", causes);
  if (causes.empty()) {
    return issuers;
  }
  std::vector<std::string> lines;
  for (const Cause& cause : causes) {
    lines.push_back(cause.field + ": " + cause.message);
  }
  return fail(Errc::kConfig, lines.size() == 1 ? lines.front() : "[" + join(lines, ", ") + "]");
}

}  // namespace kintsugi::auth
