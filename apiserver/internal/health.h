#pragma once

#include <string_view>

#include "apiserver/internal/request.h"

/// /healthz, /livez, /readyz and /version (AM-117 to AM-123).
namespace kintsugi::apiserver::internal {

/// True for /healthz, /livez, /readyz and what is below them.
[[nodiscard]] bool is_health_path(std::string_view path) noexcept;
/// Health and /version: open to everybody outside of logical clusters (AM-475).
[[nodiscard]] bool is_open_path(std::string_view path) noexcept;

void handle_health(const RequestPtr& request);
void handle_version(const RequestPtr& request);

}  // namespace kintsugi::apiserver::internal
