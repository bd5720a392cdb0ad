#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "aggregation/bytes/json_split.h"
#include "krm/annotations.h"

/// The marker: annotation kcp.io/cluster, which says of an object that was read over several plain
/// servers whose it is (AGG-1502). Objects stay the bytes that they are around it.
namespace kintsugi::aggregation {

inline constexpr std::string_view kMarker = krm::kClusterAnnotation;

/// An object with the marker as its first annotation; one that it had is gone. The same for a row
/// of a Table, whose object gets it. What has no metadata, and what is no object, stays as it is.
/// @param item  from '{' to '}'.
[[nodiscard]] std::string with_marker(std::string_view item, std::string_view cluster);
/// The same for the object of a watch event, and for all rows of one that is a Table.
[[nodiscard]] std::string event_with_marker(std::string_view event, std::string_view cluster);
/// event_with_marker for an event whose facts are known, in one copy; nullopt: it takes more, as
/// its object has a marker, may hide one, or is a Table.
[[nodiscard]] std::optional<std::string> marked_quickly(std::string_view event,
                                                        const EventFacts& facts,
                                                        std::string_view cluster);
/// The same for the answer to a GET: an object, or a Table.
[[nodiscard]] std::string document_with_marker(std::string_view document, std::string_view cluster);

/// Takes the marker out of an object, where the object is. False: it has none, or this is no
/// object; then it stays as it is. Cost: no memory, every byte is moved once.
[[nodiscard]] bool remove_marker(std::string& object);
/// An object without the marker; nullopt: it has none, or this is no object.
[[nodiscard]] std::optional<std::string> without_marker(std::string_view object);

/// A protobuf document ("k8s\0" and an Unknown) without the marker in its object; nullopt: it has
/// none, or this cannot be understood.
[[nodiscard]] std::optional<std::string> protobuf_without_marker(std::string_view document);

}  // namespace kintsugi::aggregation
