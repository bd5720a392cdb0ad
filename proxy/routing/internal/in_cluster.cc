#include "proxy/routing/internal/in_cluster.h"

#include <string_view>

#include "auth/jwt.h"
#include "krm/path_prefixes.h"
#include "krm/request_info.h"
#include "proxy/routing/request.h"

namespace kintsugi::proxy {
namespace {

constexpr std::string_view kScheme = "Bearer ";

std::string cluster_claim(std::string_view token) {
  const Expected<auth::Jwt> jwt = auth::parse_jwt(token);
  if (!jwt) {
    return {};
  }
  std::string_view claim = jwt->claims.text({"kubernetes.io", "clusterName"});
  if (claim.empty()) {
    claim = jwt->claims.text({"kubernetes.io/serviceaccount/clusterName"});
  }
  return std::string(claim);
}

}  // namespace

std::string token_cluster(std::string_view authorization) {
  if (!authorization.starts_with(kScheme)) {
    return {};
  }
  std::string cluster = cluster_claim(authorization.substr(kScheme.size()));
  return krm::is_workspace_path(cluster) ? std::move(cluster) : std::string();
}

std::optional<std::string> in_cluster_target(const http::RequestHead& head,
                                             const krm::RequestTarget& parsed) {
  const std::string_view target = head.target;
  const std::string_view authorization = head.headers.get("authorization");
  if (parsed.form != krm::TargetForm::kOther || parsed.word != krm::TargetWord::kNone ||
      parsed.fault != krm::TargetFault::kNone || !target.starts_with('/') ||
      head.headers.contains("x-kubernetes-sharded-request")) {
    return std::nullopt;
  }
  const std::string cluster = token_cluster(authorization);
  if (cluster.empty()) {
    return std::nullopt;
  }
  std::string_view path = target.substr(0, target.find('?'));
  const std::string_view query = target.substr(path.size());
  if (path.ends_with('/')) {
    path.remove_suffix(1);
  }
  return krm::cluster_root(cluster) + std::string(path) + std::string(query);
}

}  // namespace kintsugi::proxy
