#include "apiserver/internal/audit.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "apiserver/internal/server_impl.h"
#include "apiserver/user_document.h"
#include "base/strings.h"
#include "base/time.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;

Json object_reference(const krm::RequestInfo& info) {
  Json out = Json::object();
  for (const auto& [key, value] :
       {std::pair<std::string_view, std::string_view>{"resource", info.resource},
        std::pair<std::string_view, std::string_view>{"namespace", info.ns},
        std::pair<std::string_view, std::string_view>{"name", info.name},
        std::pair<std::string_view, std::string_view>{"apiGroup", info.group},
        std::pair<std::string_view, std::string_view>{"apiVersion", info.version},
        std::pair<std::string_view, std::string_view>{"subresource", info.subresource}}) {
    if (!value.empty()) {
      out[key] = value;
    }
  }
  return out;
}

/// Paths and fields may hold any bytes, lines of JSON may not.
std::string as_utf8(std::string line) {
  if (!is_valid_utf8(line)) {
    const auto foreign = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
    std::replace_if(line.begin(), line.end(), foreign, '?');
  }
  return line;
}

}  // namespace

std::string audit_line(const Request& request) {
  Json event = Json::object({{"kind", "Event"},
                             {"apiVersion", "audit.k8s.io/v1"},
                             {"level", "Metadata"},
                             {"auditID", Json(request.audit_id)},
                             {"stage", request.streams ? "ResponseStarted" : "ResponseComplete"},
                             {"requestURI", Json(request.head.target)},
                             {"verb", Json(request.info.verb)}});
  const bool impersonates = request.impersonator != nullptr;
  event["user"] = user_document(impersonates ? *request.impersonator : request.user);
  if (impersonates) {
    event["impersonatedUser"] = user_document(request.user);
  }
  if (!request.constraint.empty()) {
    event.make({"authenticationMetadata", "impersonationConstraint"}) = request.constraint;
  }
  if (request.exchange != nullptr) {
    event["sourceIPs"].push_back(Json(request.exchange->stream().peer().address));
  }
  if (const std::string_view agent = request.header("user-agent"); !agent.empty()) {
    event["userAgent"] = agent;
  }
  if (request.info.is_resource) {
    event["objectRef"] = object_reference(request.info);
  }
  if (!request.cluster.empty()) {
    event.make({"annotations", "kcp.io/cluster"}) = request.cluster;
  }
  for (const auto& [key, value] : request.annotations) {
    event.make({"annotations", key}) = value;
  }
  if (request.status != 0) {
    event.make({"responseStatus", "code"}) = request.status;
  }
  const auto taken = std::chrono::duration_cast<std::chrono::microseconds>(
      request.server.loop().now() - request.received);
  event["requestReceivedTimestamp"] = rfc3339(request.received_at);
  event["latencyMicroseconds"] = static_cast<std::int64_t>(taken.count());
  return as_utf8(event.dump());
}

}  // namespace kintsugi::apiserver::internal
