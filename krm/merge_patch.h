#pragma once

#include <string_view>

#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::krm {

/// Reads a merge patch, which must be an object.
/// @param report duplicate fields, for strict field validation; may be null.
/// @error kBadRequest "error decoding patch: …" (AM-202).
[[nodiscard]] Expected<Json> parse_merge_patch(std::string_view body,
                                               Json::ParseReport* report = nullptr);

/// Removes the null members of all objects in a value; null elements of lists stay.
void discard_nulls(Json& value);

/// RFC 7386: objects are merged, null removes, everything else (lists too) replaces. As in
/// Kubernetes, a value that replaces no object loses its nulls also where it has lists of objects.
[[nodiscard]] Json apply_merge_patch(Json target, const Json& patch);

/// The smallest patch that turns `from` into `to`; {} when they are equal. Nulls inside `to` cannot
/// be expressed (RFC 7386) and are lost.
[[nodiscard]] Json make_merge_patch(const Json& from, const Json& to);

}  // namespace kintsugi::krm
