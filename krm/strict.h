#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "krm/schema.h"

namespace kintsugi::krm {

/// Makes of parsed JSON what Kubernetes' typed decoding and encoding would make of it: unknown
/// members dropped (names are case-sensitive), null dropped, empty values that Go would omit
/// dropped, values that Go always writes filled in (`spec: {}`, `rules: null`), times in UTC with
/// their precision, base64 checked. Idempotent.
/// @param schema  a builtin type (krm/types/builtin_types.h), of a whole object or of a part.
/// @param unknown receives the paths of dropped members in order ("metadata.foo", "spec.a[0].b").
/// @param path    where `value` stands, for `unknown`; "" for the whole object.
/// @error kBadRequest  a value of the wrong type or form, in Go's words ("json: cannot unmarshal
///        number into Go struct field ConfigMap.data of type string"); the caller puts AM-142's
///        words in front. `value` is then half done.
[[nodiscard]] Expected<void> decode_typed(const Schema& schema, Json& value,
                                          std::vector<std::string>* unknown = nullptr,
                                          std::string_view path = {});

/// "strict decoding error: duplicate field "a", unknown field "b"" (AM-148, AM-149); "" when both
/// are empty.
[[nodiscard]] std::string strict_error_text(const std::vector<std::string>& duplicates,
                                            const std::vector<std::string>& unknown);
/// The same as Warning texts, one each (AM-146).
[[nodiscard]] std::vector<std::string> strict_warnings(const std::vector<std::string>& duplicates,
                                                       const std::vector<std::string>& unknown);

}  // namespace kintsugi::krm
