#include "controlplane/internal/shard_access.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "auth/effective_users.h"
#include "auth/own_roles.h"
#include "base/strings.h"
#include "controlplane/admission/migration_admission.h"
#include "controlplane/admission/privileges.h"
#include "controlplane/controllers/home_workspace.h"
#include "controlplane/internal/names.h"
#include "shards/own_rights.h"

namespace kintsugi::controlplane {
namespace {

using NoCredentials = auth::RequestAuthenticator::NoCredentials;

bool is_administrator(const auth::UserInfo& user) {
  return user.in_group(auth::kGroupMasters) || user.in_group(auth::kGroupKcpAdmin) ||
         user.in_group(auth::kGroupExternalLogicalClusterAdmin) || has_any(user, kClusterAdmin);
}

/// Who may use a subresource that says what the system knows; everybody else is denied.
struct SystemStatus {
  std::string_view group, resource;
  bool readable;  ///< by everybody whom RBAC lets
  Privileges writers;
};
constexpr SystemStatus kSystemStatuses[] = {
    {kApisGroup, kApiBindings, false, kSystem},
    {kApisGroup, kApiExports, false, kSystem},
    {kCoreGroup, kLogicalClusters, true, kExempt | kAdmin},
    {kTenancyGroup, kWorkspaces, true, kSystem | kBootstrapper | kAdmin},
    {kTenancyGroup, kWorkspaceTypes, true, kSystem | kBootstrapper | kAdmin},
};

bool is_open(std::string_view phase) {
  return phase == "Ready" || phase == "Terminating" || phase == "Deleting";
}

/// Groups that manage logical clusters whatever these ask of others.
bool is_exempt(const auth::UserInfo& user) {
  return is_administrator(user) || has_any(user, kExempt);
}

/// Groups count where the user is in scope only (KK-303, KK-304).
bool may_pass(const ClusterInfo& cluster, const auth::Attributes& attributes) {
  const auto any = [&](const auto& test) {
    return auth::any_effective_user(attributes.user, cluster.name, test);
  };
  if (!is_open(cluster.phase) && !any(is_administrator)) {
    return false;
  }
  return attributes.deep || !cluster.asks_for_groups ||
         auth::parse_service_account_user(attributes.user.name) ||
         any([&](const auth::UserInfo& user) {
           return is_exempt(user) || (!cluster.required_groups.empty() &&
                                      has_required_groups(cluster.required_groups, user));
         });
}

/// What a certificate of our own processes is for; nullopt for everybody else.
std::optional<shards::OwnRole> own_role_of(const auth::UserInfo& user) noexcept {
  if (user.in_group(auth::kGroupOwnProxy)) {
    return shards::OwnRole::kTopology;
  }
  if (user.in_group(auth::kGroupOwnShard)) {
    return shards::OwnRole::kShard;
  }
  return user.in_group(auth::kGroupOwnReader) ? std::optional(shards::OwnRole::kReviewed)
                                              : std::nullopt;
}

/// Also whether something exists: it sees all logical clusters.
bool is_in_role(shards::OwnRole role, const auth::Attributes& asked) noexcept {
  if (!asked.is_resource) {
    return shards::is_own_path(asked.verb, asked.path) ||
           (asked.verb == "access" && asked.path == "/");
  }
  return shards::has_own_right(role, {asked.verb, asked.group, asked.resource, asked.subresource});
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

bool has_required_groups(std::string_view required, const auth::UserInfo& user) {
  if (required.empty()) {
    return true;
  }
  const std::vector<std::string_view> choices = split(required, ';');
  return std::any_of(choices.begin(), choices.end(), [&](std::string_view choice) {
    const std::vector<std::string_view> groups = split(choice, ',');
    return std::all_of(groups.begin(), groups.end(),
                       [&](std::string_view group) { return user.in_group(group); });
  });
}

bool is_systems_status(const auth::Attributes& attributes) noexcept {
  if (!attributes.is_resource || attributes.subresource != "status") {
    return false;
  }
  const bool reads =
      attributes.verb == "get" || attributes.verb == "list" || attributes.verb == "watch";
  return std::any_of(
      std::begin(kSystemStatuses), std::end(kSystemStatuses), [&](const SystemStatus& one) {
        return one.resource == attributes.resource && one.group == attributes.group &&
               !(one.readable && reads) && !has_any(attributes.user, one.writers);
      });
}

std::optional<bool> decided_by_role(const auth::Attributes& attributes) noexcept {
  const auto role = own_role_of(attributes.user);
  return role ? std::optional<bool>(is_in_role(*role, attributes)) : std::nullopt;
}

void PhaseAuthorizer::authorize(const auth::Attributes& attributes, Done done) {
  if (const std::optional<bool> allowed = decided_by_role(attributes)) {
    done(auth::Decision{*allowed, *allowed ? "" : "access denied"});
    return;
  }
  if (has_just_left_ && !attributes.is_resource && attributes.verb == "access" &&
      has_just_left_(attributes.cluster)) {
    done(auth::Decision{true, {}});
    return;
  }
  if (is_denied_migration(attributes)) {
    if (attributes.resource == kClusterDumps) {
      done(fail(denied_dump()));
    } else {
      done(auth::Decision{false, "access denied"});
    }
    return;
  }
  if (attributes.user.in_group(auth::kGroupMasters)) {
    inner_.authorize(attributes, std::move(done));  // KK-300, whatever his scopes are
    return;
  }
  if (is_systems_status(attributes) || is_system_cluster(attributes.cluster)) {
    done(auth::Decision{false, "access denied"});
    return;
  }
  const ClusterInfo* info = index_.find(attributes.cluster);
  if (info != nullptr && !may_pass(*info, attributes)) {
    done(auth::Decision{false, "access denied"});
    return;
  }
  if (is_home_request(attributes)) {
    done(auth::Decision{true, {}});
    return;
  }
  inner_.authorize(attributes, std::move(done));
}

ShardAuthenticator::ShardAuthenticator(auth::RequestAuthenticator::Params params, bool as_kcp)
    : strict_(with(params, as_kcp ? NoCredentials::kPass : NoCredentials::kReject)),
      open_(with(params, NoCredentials::kPass)) {}

void ShardAuthenticator::authenticate(const http::RequestHead& head, const auth::BearerPtr& token,
                                      const http::PeerInfo& peer, std::string_view cluster,
                                      Done done) {
  auth::RequestAuthenticator& rule = is_open_path(head.target) ? open_ : strict_;
  rule.authenticate_with_source(
      head.headers, token, peer, cluster,
      [done = std::move(done)](Expected<auth::RequestAuthenticator::Authenticated> result) {
        if (!result) {
          done(fail(std::move(result.error())));
          return;
        }
        if (result->user && result->source != auth::CredentialSource::kCertificate) {
          std::erase_if(result->user->groups, [](const std::string& group) {
            return group.starts_with(auth::kOwnGroupPrefix);
          });
        }
        done(std::move(result->user));
      });
}

}  // namespace kintsugi::controlplane
