#pragma once

#include <string_view>

#include "base/strings.h"

namespace kintsugi::aggregation {

/// "application/json" of "application/json;charset=utf-8".
[[nodiscard]] inline std::string_view media_type(std::string_view content_type) noexcept {
  return trim(content_type.substr(0, content_type.find(';')));
}

}  // namespace kintsugi::aggregation
