#include "controlplane/internal/type_tokens.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "controlplane/internal/names.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::size_t kMostKnown = 1'024;

std::string version_of(const Json& object) {
  return std::string(object.text({"metadata", "uid"})) + " " +
         std::string(object.text({"metadata", "resourceVersion"}));
}

/// Those of the server that are asked for: all of them when none is.
std::vector<std::string> meant(const std::vector<std::string>& asked,
                               const std::vector<std::string>& own) {
  if (asked.empty()) {
    return own;
  }
  std::vector<std::string> out;
  std::copy_if(own.begin(), own.end(), std::back_inserter(out), [&](const std::string& one) {
    return std::find(asked.begin(), asked.end(), one) != asked.end();
  });
  return out;
}

}  // namespace

TypeTokens::TypeTokens(net::Loop& loop, Params params)
    : params_(std::move(params)), issuers_(loop, params_.outgoing) {}

void TypeTokens::stop() {
  issuers_.keep([](const std::string&) { return nullptr; });
}

std::shared_ptr<const auth::JwtIssuers> TypeTokens::issuers_of(const std::string& cluster,
                                                               const std::string& name) {
  const apiserver::ObjectReader& reader = params_.reader();
  std::optional<Json> object = reader.get(cluster, kTenancyGroup, kAuthentications, "", name);
  if (!object && !params_.is_here(cluster)) {
    object = reader.get(cluster, kinds::kReplicaGroup, kAuthentications, "", name);
  }
  const std::string key = cluster + "/" + name;
  if (!object) {
    known_.erase(key);
    return nullptr;
  }
  const std::string version = version_of(*object);
  const auto known = known_.find(key);
  if (known != known_.end() && known->second.version == version) {
    return known->second.issuers;
  }
  if (known_.size() >= kMostKnown) {
    known_.clear();
  }
  auto issuers =
      std::make_shared<const auth::JwtIssuers>(auth::configured_issuers(*object, cluster, name));
  known_.insert_or_assign(key, Known{version, issuers});
  issuers_.keep([this](const std::string& one) {
    const auto found = known_.find(one);
    return found == known_.end() ? nullptr : found->second.issuers.get();
  });
  return issuers;
}

void TypeTokens::authenticate_token(const auth::BearerPtr& token,
                                    const std::vector<std::string>& audiences,
                                    std::string_view cluster, Done done) {
  std::vector<std::string> accepted = meant(audiences, params_.audiences);
  const std::optional<FoundType> type = accepted.empty() || token->jwt() == nullptr
                                            ? std::nullopt
                                            : params_.types.type_of(params_.reader(), cluster);
  if (!type) {
    done(std::nullopt);
    return;
  }
  std::vector<auth::ConfiguredIssuers::Configuration> configurations;
  for (const std::string& name :
       auth::configuration_names(type->object, type->cluster, type->name)) {
    if (std::shared_ptr<const auth::JwtIssuers> issuers = issuers_of(type->cluster, name)) {
      configurations.push_back({type->cluster + "/" + name, type->cluster, std::move(issuers)});
    }
  }
  issuers_.authenticate(configurations, token, audiences, cluster,
                        [accepted = std::move(accepted),
                         done = std::move(done)](Expected<std::optional<Result>> result) {
                          if (result && *result) {
                            (*result)->audiences = accepted;
                          }
                          done(std::move(result));
                        });
}

}  // namespace kintsugi::controlplane
