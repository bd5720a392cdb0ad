#include "apiserver/internal/audit.h"

#include "apiserver/internal/server_impl.h"
#include "auth/audit_event.h"

namespace kintsugi::apiserver::internal {

std::string audit_line(const Request& request) {
  const bool impersonates = request.impersonator != nullptr;
  auth::AuditEvent event{
      .id = request.audit_id,
      .stage = request.streams ? auth::kResponseStarted : auth::kResponseComplete,
      .target = request.head.target,
      .info = request.info,
      .user = impersonates ? request.impersonator.get() : &request.user,
      .impersonated = impersonates ? &request.user : nullptr,
      .constraint = request.constraint,
      .address = {},
      .agent = request.header("user-agent"),
      .cluster = request.cluster,
      .annotations = &request.annotations,
      .status = request.status,
      .received_at = request.received_at,
      .taken = request.server.loop().now() - request.received};
  if (request.exchange != nullptr) {
    event.address = request.exchange->stream().peer().address;
  }
  return auth::audit_line(event);
}

}  // namespace kintsugi::apiserver::internal
