#pragma once

#include <string>

#include "apiserver/internal/request.h"

namespace kintsugi::apiserver::internal {

/// One line of the audit log, without its line end: an audit.k8s.io/v1 Event of level Metadata
/// (AM-455). It never holds bodies, so no Secrets and no tokens.
[[nodiscard]] std::string audit_line(const Request& request);

}  // namespace kintsugi::apiserver::internal
