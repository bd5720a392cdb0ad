#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "krm/schema.h"

namespace kintsugi::cel {

/// Reads the fieldPath of a rule (".spec.size", "['a.b']") against the rule's schema.
/// @returns the path as errors print it ("spec.size"); nullopt when it leads nowhere.
[[nodiscard]] std::optional<std::string> field_path(std::string_view text,
                                                    const krm::Schema& schema);

}  // namespace kintsugi::cel
