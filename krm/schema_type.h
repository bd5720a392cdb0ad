#pragma once

#include <string_view>

#include "krm/schema.h"

namespace kintsugi::krm {

/// As schemas have it: "object"; "" for kAny and kIntOrString, which have no name of their own.
[[nodiscard]] std::string_view schema_type_name(SchemaType type) noexcept;
/// kAny: the name is none of these.
[[nodiscard]] SchemaType schema_type_named(std::string_view name) noexcept;

}  // namespace kintsugi::krm
