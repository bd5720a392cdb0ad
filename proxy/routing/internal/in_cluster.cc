#include "proxy/routing/internal/in_cluster.h"

#include <string_view>

#include "auth/bearer.h"
#include "krm/path_prefixes.h"
#include "krm/request_info.h"
#include "proxy/routing/router.h"

namespace kintsugi::proxy {

std::string_view token_cluster(const auth::Bearer& token) {
  std::string_view claim = token.claim({"kubernetes.io", "clusterName"});
  if (claim.empty()) {
    claim = token.claim({"kubernetes.io/serviceaccount/clusterName"});
  }
  return krm::is_workspace_path(claim) ? claim : std::string_view();
}

std::optional<std::string> in_cluster_target(Request& request) {
  const std::string_view target = request.head.target;
  const krm::RequestTarget& parsed = request.target;
  if (parsed.form != krm::TargetForm::kOther || parsed.word != krm::TargetWord::kNone ||
      parsed.fault != krm::TargetFault::kNone || !target.starts_with('/') || is_console(target) ||
      request.head.headers.contains("x-kubernetes-sharded-request") ||
      !request.head.headers.get("authorization").starts_with("Bearer ")) {  // as kcp compares
    return std::nullopt;
  }
  const auth::BearerPtr& token = request.bearer();
  const std::string_view cluster = token != nullptr ? token_cluster(*token) : std::string_view();
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
