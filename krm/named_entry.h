#pragma once

#include <string_view>

#include "krm/json.h"

namespace kintsugi::krm {

/// The entry of `document.<list>`, an array of objects, whose member "name" is that: as in lists of
/// kubeconfigs. Null when there is none. Lifetime: the document's.
[[nodiscard]] const Json* find_named(const Json& document, std::string_view list,
                                     std::string_view name);

}  // namespace kintsugi::krm
