#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "auth/user.h"
#include "base/time.h"
#include "krm/request_info.h"

namespace kintsugi::auth {

/// Stages of a request that audit logs have lines for.
inline constexpr std::string_view kResponseStarted = "ResponseStarted";
inline constexpr std::string_view kResponseComplete = "ResponseComplete";

/// What a line of an audit log tells of a request. Refers to everything, for the call only.
struct AuditEvent {
  std::string_view id;
  std::string_view stage;
  std::string_view target;  ///< as it was sent
  const krm::RequestInfo& info;
  const UserInfo* user = nullptr;  ///< who sent it; null: nobody who is known
  const UserInfo* impersonated = nullptr;
  std::string_view constraint = {};  ///< the constrained impersonation that let it; "": none
  std::string_view address, agent, cluster;  ///< "": none is known
  const std::vector<std::pair<std::string, std::string>>* annotations = nullptr;
  int status = 0;                ///< of the answer; 0: there was none
  std::int64_t received_at = 0;  ///< [us since 1970]
  Duration taken{};              ///< since then
};

/// The event as a line of JSON, without its line end: an audit.k8s.io/v1 Event of level Metadata
/// (AM-455, FP-143). It never holds bodies, so no Secrets and no tokens, nor credentials of queries
/// (SE-165).
[[nodiscard]] std::string audit_line(const AuditEvent& event);

/// A target in which "hidden" stands for the values of `token`, `access_token`, `id_token` and
/// `code` in the query, in whatever spelling of the key. O(n).
[[nodiscard]] std::string without_credentials(std::string_view target);

/// The Audit-ID of a request whose header says `given`: that, or a new one where it is missing or
/// longer than 128 bytes.
[[nodiscard]] std::string audit_id_of(std::string_view given);

}  // namespace kintsugi::auth
