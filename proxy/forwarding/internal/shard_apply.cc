#include "proxy/forwarding/internal/shard_apply.h"

#include "auth/impersonation.h"
#include "base/strings.h"
#include "krm/request_info.h"

namespace kintsugi::proxy {
namespace {

constexpr std::string_view kGroup = "system:kcp:external-logical-cluster-admin";
constexpr std::string_view kSlices = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/";

}  // namespace

std::optional<ShardApply> shard_apply(const topology::Snapshot& facts,
                                      const http::RequestHead& head, std::string_view trail,
                                      const auth::UserInfo& user) {
  if (head.method != "PATCH" || !trail.starts_with(kSlices) || !user.in_group(kGroup) ||
      auth::has_impersonation(head.headers) ||
      !head.headers.get("content-type").starts_with("application/apply-patch+yaml")) {
    return std::nullopt;
  }
  const krm::RequestInfo info = krm::parse_request_info(head.method, trail);
  const auto manager = info.query.get("fieldManager");
  if (info.subresource != "status" || info.name.empty() || !manager ||
      facts.shard(*manager) == nullptr) {
    return std::nullopt;
  }
  return ShardApply{std::string(*manager), info.name};
}

}  // namespace kintsugi::proxy
