#pragma once

#include <string>
#include <string_view>

namespace kintsugi::aggregation {

/// The Accept of a watch as it has to be for lists of the same objects: servers refuse to show a
/// list as one PartialObjectMetadata, it is a PartialObjectMetadataList.
[[nodiscard]] std::string list_accept(std::string_view accept);

}  // namespace kintsugi::aggregation
