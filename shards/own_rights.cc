#include "shards/own_rights.h"

#include <algorithm>
#include <span>

namespace kintsugi::shards {
namespace {

constexpr std::string_view kReads = "get,list,watch";
constexpr std::string_view kLists = "list,watch";
constexpr std::string_view kAdmission = "admissionregistration.k8s.io";
constexpr std::string_view kRbac = "rbac.authorization.k8s.io";

struct Row {
  std::string_view group, resource, verbs;
};
/// In any logical cluster, and in all of them.
constexpr Row kTable[] = {
    {"core.kcp.io", "logicalclusters", kReads},
    {"core.kcp.io", "shards", kReads},
    {"tenancy.kcp.io", "workspaces", kReads},
    {"tenancy.kcp.io", "workspacetypes", kReads},
    {"tenancy.kcp.io", "workspaceauthenticationconfigurations", kReads},
    {"apis.kcp.io", "apiexports", kReads},
    {"apis.kcp.io", "apibindings", kReads},
    {"apis.kcp.io", "apiexportendpointslices", kReads},
    {"cache.kcp.io", "clustercachedresourceendpointslices", kLists},
    {"topology.kcp.io", "partitions", kReads},
    {"topology.kcp.io", "partitionsets", kReads},
    {kRbac, "roles", kLists},
    {kRbac, "rolebindings", kLists},
    {kRbac, "clusterroles", kLists},
    {kRbac, "clusterrolebindings", kLists},
    {"authorization.k8s.io", "subjectaccessreviews", "create"},
    {"authentication.k8s.io", "tokenreviews", "create"},
    {"authentication.k8s.io", "selfsubjectreviews", "create"},
};

/// What shards ask of each other: replication, placement (controlplane/clusters/cluster_access.h),
/// registration in root, and whether a token's account exists.
constexpr Row kShardTable[] = {
    {"apis.kcp.io", "apiexports", kReads},
    {"apis.kcp.io", "apiresourceschemas", kReads},
    {"apis.kcp.io", "apiconversions", kLists},
    {"cache.kcp.io", "clustercachedresources", kLists},
    {"cache.kcp.io", "clustercachedresourceendpointslices", kLists},
    {"tenancy.kcp.io", "workspacetypes", kReads},
    {"tenancy.kcp.io", "workspaceauthenticationconfigurations", kReads},
    {kRbac, "clusterroles", kLists},
    {kRbac, "clusterrolebindings", kLists},
    {kAdmission, "mutatingadmissionpolicies", kLists},
    {kAdmission, "mutatingadmissionpolicybindings", kLists},
    {kAdmission, "mutatingwebhookconfigurations", kLists},
    {kAdmission, "validatingadmissionpolicies", kLists},
    {kAdmission, "validatingadmissionpolicybindings", kLists},
    {kAdmission, "validatingwebhookconfigurations", kLists},
    {"core.kcp.io", "logicalclusters", "get,create,delete"},
    {"core.kcp.io", "shards", "get,list,watch,create,update"},
    {"authentication.k8s.io", "tokenreviews", "create"},
};

bool is_among(std::string_view verbs, std::string_view verb) noexcept {
  for (std::size_t begin = 0; begin <= verbs.size();) {
    const std::size_t end = std::min(verbs.find(',', begin), verbs.size());
    if (verbs.substr(begin, end - begin) == verb) {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

bool is_in(std::span<const Row> table, const OwnQuestion& asked) noexcept {
  return asked.subresource.empty() && std::any_of(table.begin(), table.end(), [&](const Row& row) {
           return row.group == asked.group && row.resource == asked.resource &&
                  is_among(row.verbs, asked.verb);
         });
}

bool is_at_or_below(std::string_view path, std::string_view prefix) noexcept {
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

}  // namespace

bool has_own_right(OwnRole role, const OwnQuestion& question) noexcept {
  if (role == OwnRole::kReviewed) {
    // What an export's virtual workspace shows is the content of the export.
    const bool is_content = question.group == "apis.kcp.io" && question.resource == "apiexports" &&
                            question.subresource == "content";
    return (question.subresource.empty() || is_content) && is_among(kReads, question.verb);
  }
  return role == OwnRole::kShard ? is_in(kShardTable, question) : is_in(kTable, question);
}

bool is_own_path(std::string_view verb, std::string_view path) noexcept {
  return verb == "get" && (path == "/livez" || path == "/readyz" || path == "/version" ||
                           is_at_or_below(path, "/api") || is_at_or_below(path, "/apis") ||
                           is_at_or_below(path, "/openapi"));
}

}  // namespace kintsugi::shards
