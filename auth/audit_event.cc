#include "auth/audit_event.h"

#include <algorithm>
#include <array>

#include "auth/user_document.h"
#include "base/shown_text.h"
#include "base/strings.h"
#include "krm/annotations.h"
#include "krm/json.h"

namespace kintsugi::auth {
namespace {

using krm::Json;

constexpr std::size_t kLongestId = 128;

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

/// Keys of queries whose values are credentials.
constexpr std::array<std::string_view, 4> kSecretKeys = {"token", "access_token", "id_token",
                                                         "code"};

bool is_secret(std::string_view key) {
  const std::string plain = percent_decode(key).value_or(std::string(key));
  return std::any_of(kSecretKeys.begin(), kSecretKeys.end(), [&plain](std::string_view secret) {
    return equals_ignore_case(plain, secret);
  });
}

}  // namespace

std::string without_credentials(std::string_view target) {
  const std::size_t question = target.find('?');
  if (question == std::string_view::npos) {
    return std::string(target);
  }
  std::string out(target.substr(0, question + 1));
  for (std::size_t at = question + 1; at < target.size();) {
    const std::size_t end = std::min(target.find_first_of("&;", at), target.size());
    const std::string_view pair = target.substr(at, end - at);
    const std::size_t equals = pair.find('=');
    if (equals != std::string_view::npos && is_secret(pair.substr(0, equals))) {
      out.append(pair.substr(0, equals + 1)).append("hidden");
    } else {
      out.append(pair);
    }
    out.append(target.substr(end, 1));
    at = end + 1;
  }
  return out;
}

std::string audit_line(const AuditEvent& event) {
  Json out = Json::object({{"kind", "Event"},
                           {"apiVersion", "audit.k8s.io/v1"},
                           {"level", "Metadata"},
                           {"auditID", Json(event.id)},
                           {"stage", Json(event.stage)},
                           {"requestURI", Json(without_credentials(event.target))},
                           {"verb", Json(event.info.verb)}});
  out["user"] = event.user != nullptr ? user_document(*event.user) : Json::object();
  if (event.impersonated != nullptr) {
    out["impersonatedUser"] = user_document(*event.impersonated);
  }
  if (!event.constraint.empty()) {
    out.make({"authenticationMetadata", "impersonationConstraint"}) = event.constraint;
  }
  if (!event.address.empty()) {
    out["sourceIPs"].push_back(Json(event.address));
  }
  if (!event.agent.empty()) {
    out["userAgent"] = event.agent;
  }
  if (event.info.is_resource) {
    out["objectRef"] = object_reference(event.info);
  }
  if (!event.cluster.empty()) {
    out.make({"annotations", krm::kClusterAnnotation}) = event.cluster;
  }
  if (event.annotations != nullptr) {
    for (const auto& [key, value] : *event.annotations) {
      out.make({"annotations", key}) = value;
    }
  }
  if (event.status != 0) {
    out.make({"responseStatus", "code"}) = event.status;
  }
  const std::int64_t taken = event.taken / std::chrono::microseconds(1);
  out["requestReceivedTimestamp"] = rfc3339_micro(event.received_at);
  out["stageTimestamp"] = rfc3339_micro(event.received_at + taken);
  out["latencyMicroseconds"] = taken;
  return shown_text(out.dump());
}

std::string audit_id_of(std::string_view given) {
  return given.empty() || given.size() > kLongestId ? random_uuid() : std::string(given);
}

}  // namespace kintsugi::auth
