#pragma once

#include "apiserver/internal/request.h"
#include "auth/authorizer.h"

/// The stages of a request (docs/spec/api-machinery.md), in their order.
namespace kintsugi::apiserver::internal {

/// Audit-Id, deadline, authentication, impersonation, cluster, authorization, then route().
void begin_request(const RequestPtr& request);

/// Method, path and resource to a handler (routing.cc).
void route(const RequestPtr& request);

/// The cluster of a target as far as the path tells before it is resolved; "": it does not.
[[nodiscard]] std::string cluster_hint(std::string_view target);

/// The request as an authorizer sees it.
[[nodiscard]] auth::Attributes attributes_of(const Request& request);

/// Asks the authorizer; calls `allowed` on the loop if it may go on, else answers 403.
void authorize(const RequestPtr& request, auth::Attributes attributes,
               std::function<void()> allowed);

/// Calls `ready` when the whole body is there; answers 413 or 415 (Content-Encoding) itself.
void with_body(const RequestPtr& request, std::function<void()> ready);

}  // namespace kintsugi::apiserver::internal
