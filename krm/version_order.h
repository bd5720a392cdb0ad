#pragma once

#include <string_view>

namespace kintsugi::krm {

/// Kubernetes' order of versions (AM-105): v10, v2, v1, v2beta1, v1beta1, v1alpha1, then other
/// names by letter. True when `a` comes before `b`. A strict weak order.
[[nodiscard]] bool is_preferred_version(std::string_view a, std::string_view b) noexcept;

}  // namespace kintsugi::krm
