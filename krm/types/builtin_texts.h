#pragma once

#include <string_view>

/// What builtin types and their fields mean, in a sentence each: what `kubectl explain` shows.
namespace kintsugi::krm {

/// @param type   as in the tables of krm/types: "ConfigMap".
/// @param field  "data"; "" for the type itself.
/// @returns "" when there is no text. Threads: any. Cost: one hash lookup.
[[nodiscard]] std::string_view builtin_text(std::string_view type, std::string_view field);

/// The whole table, for tests: rows "Type: text", each followed by its "  field: text".
[[nodiscard]] std::string_view builtin_texts();

}  // namespace kintsugi::krm
