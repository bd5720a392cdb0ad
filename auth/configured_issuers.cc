#include "auth/configured_issuers.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace kintsugi::auth {
namespace {

/// A token of theirs takes milliseconds at most.
constexpr std::uint64_t kCostLimit = 100'000;
constexpr std::string_view kSystem = "system:";
constexpr std::string_view kPolicies = "apis.kcp.io:";
constexpr std::string_view kKcp = "kcp.io";

}  // namespace

JwtIssuers configured_issuers(const krm::Json& configuration, std::string_view cluster,
                              std::string_view name) {
  const krm::Json* list = configuration.at({"spec", "jwt"});
  if (list == nullptr) {
    return {};
  }
  std::vector<Cause> causes;
  JwtIssuers issuers = issuers_from_json(*list, "spec.jwt", causes, kCostLimit);
  if (!causes.empty()) {
    log_warn("a workspace's authentication cannot be used",
             {{"cluster", cluster},
              {"name", name},
              {"error", causes.front().field + ": " + causes.front().message}});
  }
  return issuers;
}

std::vector<std::string> configuration_names(const krm::Json& type, std::string_view cluster,
                                             std::string_view name) {
  std::vector<std::string> names;
  if (const krm::Json* list = type.at({"spec", "authenticationConfigurations"})) {
    for (const krm::Json& one : list->items()) {
      names.emplace_back(one.text({"name"}));
    }
  }
  if (names.size() > kMostConfigurations) {
    log_warn("a workspace type names too many authentication configurations",
             {{"cluster", cluster}, {"name", name}});
    names.resize(kMostConfigurations);
  }
  return names;
}

void ConfiguredIssuers::authenticate(const std::vector<Configuration>& configurations,
                                     const BearerPtr& token,
                                     const std::vector<std::string>& audiences,
                                     std::string_view cluster, TokenAuthenticator::Done done) {
  const Jwt* const jwt =
      token->text().size() <= IssuerTokens::Limits().max_token ? token->jwt() : nullptr;
  const std::string_view issuer = jwt != nullptr ? token_issuer(jwt->claims) : std::string_view();
  std::vector<std::shared_ptr<TokenAuthenticator>> members;
  for (const Configuration& each : configurations) {
    const bool knows = std::any_of(each.issuers->begin(), each.issuers->end(),
                                   [&](const auto& one) { return one->config().url == issuer; });
    if (!knows) {
      continue;
    }
    Tokens& one = tokens_[each.key];
    if (one.tokens == nullptr || one.issuers != each.issuers) {
      one.issuers = each.issuers;
      IssuerTokens::Limits limits;
      limits.outgoing = outgoing_;
      limits.cluster = each.cluster;
      one.tokens = std::make_shared<IssuerTokens>(loop_, *one.issuers, false, std::move(limits));
    }
    members.push_back(one.tokens);
  }
  TokenUnion(std::move(members))
      .authenticate_token(token, audiences, cluster,
                          [cluster = std::string(cluster), done = std::move(done)](
                              Expected<std::optional<TokenAuthenticator::Result>> result) {
                            if (result && *result) {
                              if (!bind_to_workspace((*result)->user, cluster)) {
                                done(fail(Errc::kUnauthorized, "a user name of the system"));
                                return;
                              }
                              (*result)->filtered = true;
                            }
                            done(std::move(result));
                          });
}

void ConfiguredIssuers::keep(
    const std::function<const JwtIssuers*(const std::string& key)>& issuers_of) {
  std::vector<std::shared_ptr<IssuerTokens>> gone;  // they tell those who wait, at the end
  for (auto at = tokens_.begin(); at != tokens_.end();) {
    if (issuers_of(at->first) == at->second.issuers.get()) {
      ++at;
      continue;
    }
    gone.push_back(std::move(at->second.tokens));
    at = tokens_.erase(at);
  }
}

bool bind_to_workspace(UserInfo& user, std::string_view cluster) {
  if (user.name.starts_with(kSystem)) {
    return false;
  }
  std::erase_if(user.groups, [](const std::string& group) {
    return group.starts_with(kSystem) || group.starts_with(kPolicies);
  });
  std::erase_if(user.extra,
                [](const auto& extra) { return extra.first.find(kKcp) != std::string::npos; });
  user.extra.emplace_back(kExtraScopes,
                          std::vector<std::string>{"cluster:" + std::string(cluster)});
  user.extra.emplace_back(kExtraClusterName, std::vector<std::string>{std::string(cluster)});
  return true;
}

}  // namespace kintsugi::auth
