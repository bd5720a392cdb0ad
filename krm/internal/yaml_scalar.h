#pragma once

#include <optional>
#include <string_view>

#include "krm/json.h"

namespace kintsugi::krm {

/// The value of a plain YAML 1.1 scalar: null, boolean, number or the text itself; nullopt for
/// infinities and not-a-number, which JSON does not have.
[[nodiscard]] std::optional<Json> resolve_yaml_scalar(std::string_view text);

}  // namespace kintsugi::krm
