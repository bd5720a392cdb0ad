#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "krm/json.h"
#include "krm/schema.h"

/// Kubernetes' protobuf form of builtin objects (AM-082): bytes 6b 38 73 00 and
/// a message {1: {1: apiVersion, 2: kind}, 2: raw object, 3: contentEncoding, 4: contentType}.
/// Threads: any.
namespace kintsugi::krm {

inline constexpr std::string_view kProtobufMediaType = "application/vnd.kubernetes.protobuf";

/// The envelope understood. Views into the bytes.
struct ProtobufEnvelope {
  std::string_view api_version, kind;
  std::string_view raw;
  std::string_view content_encoding, content_type;
};
/// @error kBadRequest  no envelope or malformed.
[[nodiscard]] Expected<ProtobufEnvelope> parse_protobuf_envelope(std::string_view bytes);

/// An enveloped builtin object as the JSON that its typed form would be encoded to, with apiVersion
/// and kind. Unknown fields are skipped. A raw content of type application/json is parsed as JSON.
/// @param expect_api_version, expect_kind  taken when the envelope names none.
/// @error kBadRequest  malformed bytes, a kind without a table, nesting over 200, bad UTF-8.
[[nodiscard]] Expected<Json> decode_protobuf(std::string_view bytes,
                                             std::string_view expect_api_version = {},
                                             std::string_view expect_kind = {});

/// An object, or a list of them (items without kind), enveloped. nullopt when the kind has no
/// table: the answer is JSON or 406 then. Status, DeleteOptions and reviews have tables.
[[nodiscard]] std::optional<std::string> encode_protobuf(const Json& object);

/// One frame of a watch stream: 4 bytes length, then {1: type, 2: {1: enveloped object}} (AM-101).
/// @param enveloped  a result of encode_protobuf.
[[nodiscard]] std::string protobuf_watch_frame(std::string_view type, std::string_view enveloped);

/// A bare message by its schema, for tests and nested use. Same errors.
[[nodiscard]] Expected<Json> decode_protobuf_message(const Schema& schema, std::string_view raw);
[[nodiscard]] std::string encode_protobuf_message(const Schema& schema, const Json& value);

}  // namespace kintsugi::krm
