#pragma once

#include <optional>
#include <string_view>

#include "apiserver/resource.h"
#include "krm/json.h"

/// What an APIConversion means: how objects of a bound or exported schema become those of another
/// version. Source: KK-191 to KK-193.
namespace kintsugi::controlplane {

/// The APIConversion of the schema, which has its name and stands beside it: that of this shard, or
/// the copy of another one's. nullopt: none.
[[nodiscard]] std::optional<krm::Json> conversion_of(const apiserver::ObjectReader& reader,
                                                     std::string_view cluster,
                                                     std::string_view name);

/// The resource with the rules of its APIConversion in place of what its schema says of conversion.
/// Rules that do not compile fail every conversion with what is wrong with them. Cost: compiles all
/// expressions. @param def null: null is returned.
[[nodiscard]] apiserver::ResourcePtr with_conversion(apiserver::ResourcePtr def,
                                                     const std::optional<krm::Json>& conversion);

}  // namespace kintsugi::controlplane
