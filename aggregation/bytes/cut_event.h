#pragma once

#include <string>
#include <string_view>

/// Events that are too large, by their beginning (AGG-1205).
namespace kintsugi::aggregation {

/// "namespace/name", or "name", of the object in a watch event of which only the beginning is
/// there; "": the beginning does not say. Of a Table: of its first row's object. Cost: linear.
[[nodiscard]] std::string json_key_of_beginning(std::string_view event);
/// The same of a protobuf frame with its length.
[[nodiscard]] std::string proto_key_of_beginning(std::string_view frame);

}  // namespace kintsugi::aggregation
