#pragma once

#include <string>

#include "apiserver/internal/request.h"

namespace kintsugi::apiserver::internal {

/// The line of the audit log for an answer (auth/audit_event.h, AM-455).
[[nodiscard]] std::string audit_line(const Request& request);

}  // namespace kintsugi::apiserver::internal
