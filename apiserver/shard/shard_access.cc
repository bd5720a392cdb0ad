#include "apiserver/shard/shard_access.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "apiserver/shard/home_workspace.h"

namespace kintsugi::apiserver {
namespace {

using NoCredentials = auth::RequestAuthenticator::NoCredentials;

bool is_administrator(const auth::UserInfo& user) {
  return user.in_group(auth::kGroupMasters) || user.in_group(auth::kGroupKcpAdmin) ||
         user.in_group(auth::kGroupExternalLogicalClusterAdmin);
}

bool is_closed(std::string_view phase) {
  return phase.empty() || phase == "Scheduling" || phase == "Initializing";
}

bool is_open_path(std::string_view target) {
  constexpr std::string_view kOpen[] = {"/healthz", "/livez", "/readyz", "/version"};
  return std::any_of(std::begin(kOpen), std::end(kOpen), [&](std::string_view path) {
    return target.starts_with(path) && (target.size() == path.size() ||
                                        target[path.size()] == '/' || target[path.size()] == '?');
  });
}

auth::RequestAuthenticator::Params with(auth::RequestAuthenticator::Params params,
                                        NoCredentials rule) {
  params.no_credentials = rule;
  return params;
}

}  // namespace

void PhaseAuthorizer::authorize(const auth::Attributes& attributes, Done done) {
  const ClusterInfo* info = index_.find(attributes.cluster);
  if (info != nullptr && is_closed(info->phase) && !is_administrator(attributes.user)) {
    done(auth::Decision{false, "access denied"});
    return;
  }
  if (is_home_request(attributes)) {
    done(auth::Decision{true, {}});
    return;
  }
  inner_.authorize(attributes, std::move(done));
}

ShardAuthenticator::ShardAuthenticator(auth::RequestAuthenticator::Params params)
    : strict_(with(params, NoCredentials::kReject)), open_(with(params, NoCredentials::kPass)) {}

void ShardAuthenticator::authenticate(const http::RequestHead& head, const http::PeerInfo& peer,
                                      std::string_view cluster, Done done) {
  auth::RequestAuthenticator& rule = is_open_path(head.target) ? open_ : strict_;
  rule.authenticate(head, peer, cluster, std::move(done));
}

}  // namespace kintsugi::apiserver
