#include "controlplane/clusters/cluster_resolver.h"

#include <utility>
#include <vector>

#include "auth/own_roles.h"
#include "base/strings.h"
#include "controlplane/admission/privileges.h"
#include "controlplane/internal/names.h"
#include "krm/request_info.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

constexpr std::string_view kLogicalClusterPath = "/apis/core.kcp.io/v1alpha1/logicalclusters";

/// True for "<prefix>", "<prefix>/…" and "<prefix>?…".
bool is_below(std::string_view target, std::string_view prefix) {
  return target.starts_with(prefix) &&
         (target.size() == prefix.size() || target[prefix.size()] == '/' ||
          target[prefix.size()] == '?');
}

Error forbidden_text(std::string text) { return Error(Errc::kForbidden, std::move(text)); }

/// What may be done where there is no LogicalCluster (any more): to look, and to clear away.
bool leaves_nothing(const http::RequestHead& head) {
  return head.method == "GET" || head.method == "HEAD" || head.method == "DELETE";
}

constexpr std::string_view kMetrics = "/metrics";

std::string_view path_of_target(std::string_view target) {
  return target.substr(0, target.find('?'));
}

constexpr std::string_view kAccessReviewPath = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// KK-112, KK-113: what an inactive cluster still answers: its schema documents and its own object,
/// which everybody may read and only those may write who may also make it active again.
bool is_awake(const http::RequestHead& head, std::string_view rest, const auth::UserInfo* user) {
  if (is_below(rest, "/openapi")) {
    return true;
  }
  if (head.method == "POST" && rest == kAccessReviewPath && user != nullptr &&
      (has_any(*user, kSystem) || user->in_group(auth::kGroupOwnProxy))) {
    return true;  // a proxy asks who may be told that it is inactive (SE-161)
  }
  return is_below(rest, kLogicalClusterPath) && user != nullptr &&
         (head.method == "GET" || has_any(*user, kExempt | kAdmin));
}

/// Questions about rights and identity go on while a cluster is emptied.
bool creates_content(const http::RequestHead& head, std::string_view rest) {
  return head.method == "POST" && !rest.starts_with("/apis/authorization.k8s.io/") &&
         !rest.starts_with("/apis/authentication.k8s.io/");
}

}  // namespace

bool is_bootstrap_identity(const auth::UserInfo& user) noexcept {
  return user.in_group(auth::kGroupMasters) || user.in_group(auth::kGroupOwnShard) ||
         user.in_group(auth::kGroupExternalLogicalClusterAdmin);
}

Error access_denied(const http::RequestHead& head, const auth::UserInfo& user,
                    std::string_view cluster, std::string_view rest) {
  const krm::RequestInfo info =
      krm::parse_request_info(head.method, rest.empty() ? std::string_view("/") : rest);
  auth::Attributes attributes;
  attributes.user = user;
  attributes.cluster = cluster;
  attributes.is_resource = info.is_resource;
  attributes.verb = info.verb;
  attributes.group = info.group;
  attributes.version = info.version;
  attributes.resource = info.resource;
  attributes.subresource = info.subresource;
  attributes.ns = info.ns;
  attributes.name = info.name;
  attributes.path = info.path;
  return auth::denied(attributes, {false, "access denied"});
}

Expected<void> check_cluster_state(const ClusterInfo& cluster, const http::RequestHead& head,
                                   std::string_view rest, const auth::UserInfo* user) {
  if (cluster.inactive && !is_awake(head, rest, user)) {
    return fail(krm::forbidden(kCoreGroup, kLogicalClusters, cluster.name,
                               "logical cluster is marked inactive"));
  }
  if (cluster.deleting && creates_content(head, rest)) {
    return fail(forbidden_text("logical cluster is being deleted"));
  }
  return {};
}

apiserver::ClusterResolver make_cluster_resolver(ClusterIndex& index) {
  return [&index](const http::RequestHead& head,
                  const auth::UserInfo& user) -> Expected<std::optional<apiserver::ClusterTarget>> {
    const std::string_view target = head.target;
    const std::optional<krm::ClusterPath> path = krm::split_cluster_path(target);
    if (!path) {
      if (path_of_target(target) == kMetrics) {  // KK-366
        return apiserver::ClusterTarget{std::string(kRootCluster), {}, target};
      }
      return std::nullopt;
    }
    const std::string_view rest = path->rest;
    const std::string& segment = path->segment;
    std::string root(target.substr(0, target.size() - rest.size()));
    if (segment == "*") {
      return apiserver::ClusterTarget{"*", std::move(root), rest};
    }
    if (segment.find('/') != std::string::npos) {  // KK-372: nobody's, and never split
      return fail(access_denied(head, user, segment, rest));
    }
    if (!krm::is_workspace_path(segment)) {
      return fail(
          krm::bad_request("invalid cluster: \"" + segment + "\" does not match the regex"));
    }
    const bool is_system = user.in_group(auth::kGroupMasters);
    if (is_system_cluster(segment)) {  // KK-379
      if (!is_system || segment.find(':', kSystemPrefix.size()) != std::string::npos) {
        return fail(access_denied(head, user, segment, rest));
      }
      return apiserver::ClusterTarget{segment, std::move(root), rest};
    }
    const ClusterIndex::Answer answer = index.resolve(segment);
    const bool is_name = segment.find(':') == std::string::npos;
    if (answer.where == ClusterIndex::Where::kHere) {
      if (const ClusterInfo* info = index.find(answer.cluster)) {
        if (Expected<void> usable = check_cluster_state(*info, head, rest, &user); !usable) {
          return fail(std::move(usable.error()));
        }
      }
      return apiserver::ClusterTarget{answer.cluster, std::move(root), rest};
    }
    if (answer.where == ClusterIndex::Where::kElsewhere) {
      Error error(Errc::kTooManyRequests, "Not found on this shard");
      error.edit().retry_after_seconds = 1;
      return fail(std::move(error));
    }
    if (!is_name) {
      return fail(krm::not_found(kTenancyGroup, kWorkspaces, segment));
    }
    if ((is_bootstrap_identity(user) && is_below(rest, kLogicalClusterPath)) ||
        (is_system && leaves_nothing(head))) {
      return apiserver::ClusterTarget{segment, std::move(root), rest};
    }
    return fail(access_denied(head, user, segment, rest));
  };
}

std::optional<TextAnswer> text_answer(ClusterIndex& index, std::string_view target) {
  const std::optional<krm::ClusterPath> path = krm::split_cluster_path(target);
  if (!path || !krm::is_workspace_path(path->segment)) {
    return std::nullopt;
  }
  const ClusterIndex::Where where = index.resolve(path->segment).where;
  if (where == ClusterIndex::Where::kElsewhere) {
    return TextAnswer{429, "Not found on this shard\n", 1};
  }
  const bool is_path = where == ClusterIndex::Where::kUnknown &&
                       path->segment.find(':') != std::string::npos &&
                       !is_system_cluster(path->segment);
  if (!is_path && path_of_target(path->rest) == kMetrics) {
    return TextAnswer{501, "shard-level endpoint not available at workspace scope\n", 0};
  }
  return std::nullopt;
}

std::optional<std::string> health_target(ClusterIndex& index, std::string_view target) {
  const std::optional<krm::ClusterPath> path = krm::split_cluster_path(target);
  const std::string_view rest = path ? path->rest.substr(0, path->rest.find('?')) : "";
  if (path && path->segment == "*") {
    return std::nullopt;
  }
  if (rest != "/livez" && rest != "/readyz" && rest != "/healthz") {
    return std::nullopt;  // single checks below a cluster need a right there
  }
  const ClusterIndex::Answer answer = index.resolve(path->segment);
  const ClusterInfo* info = index.find(answer.cluster);
  const bool is_name = is_system_cluster(path->segment) || krm::is_cluster_name(path->segment);
  if (info == nullptr ? !is_name : info->inactive) {
    return std::nullopt;
  }
  return std::string(path->rest);
}

std::optional<std::string> without_identity(std::string_view target,
                                            const IdentityCheck& is_identity) {
  const std::optional<krm::ClusterPath> path = krm::split_cluster_path(target);
  if (!path || path->segment != "*") {
    return std::nullopt;
  }
  const std::string_view resource_path = path->rest.substr(0, path->rest.find('?'));
  const std::vector<std::string_view> parts = split(resource_path, '/');  // "" apis g v [ns] r
  if (parts.size() < 5 || parts[1] != "apis") {
    return std::nullopt;
  }
  const std::size_t at = parts.size() > 6 && parts[4] == "namespaces" ? 6 : 4;
  const std::string resource = percent_decode(parts[at]).value_or(std::string(parts[at]));
  const std::size_t colon = resource.find(':');
  if (colon == std::string::npos ||
      !is_identity(parts[2], std::string_view(resource).substr(0, colon),
                   std::string_view(resource).substr(colon + 1))) {
    return std::nullopt;
  }
  const auto begin = static_cast<std::size_t>(parts[at].data() - target.data());
  return std::string(target.substr(0, begin)) + resource.substr(0, colon) +
         std::string(target.substr(begin + parts[at].size()));
}

}  // namespace kintsugi::controlplane
