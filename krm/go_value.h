#pragma once

#include <string>
#include <string_view>

#include "krm/json.h"

namespace kintsugi::krm {

/// What Go's fmt prints of a decoded JSON value: `map[a:1 b:[x <nil>]]`.
/// @param verb 'v' as for %v; 's' marks values that are no text: `%!s(int64=5)`.
/// Cost: O(size); recursion is bounded by the parser's depth.
[[nodiscard]] std::string go_value_text(const Json& value, char verb = 'v');

/// What encoding/json calls the type of a JSON value in its errors: "number", "bool", "array".
[[nodiscard]] std::string_view go_json_type(const Json& value) noexcept;

/// JSON as encoding/json writes it: <, > and & in texts as \u003c, \u003e and \u0026.
[[nodiscard]] std::string go_json_text(const Json& value);

/// The type that Go gives a decoded JSON value, as %s prints a reflect.Type: "string", "int64",
/// "map[string]interface {}", "[]interface {}"; "%!s(<nil>)" for null.
[[nodiscard]] std::string_view go_type_text(const Json& value) noexcept;

}  // namespace kintsugi::krm
