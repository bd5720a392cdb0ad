#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::krm {

/// What strict decoding says about the fields of a builtin object, in the order in which the
/// document has them, as Kubernetes' decoder finds them (AM-148): `duplicate field "a"`, `unknown
/// field "b"`, equal texts once, nothing inside unknown fields.
/// @param json    well-formed JSON, an object.
/// @param unknown paths of the fields that the kind does not have ("metadata.foo", "spec.a[0].b").
/// Cost: O(size). Threads: any.
[[nodiscard]] std::vector<std::string> strict_findings(std::string_view json,
                                                       const std::vector<std::string>& unknown);

}  // namespace kintsugi::krm
