#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "krm/json.h"
#include "workers/delivery/protocol/content_type.h"

namespace kintsugi::workers {

enum class DeliveryRefusal : std::uint8_t { kInvalidManifest, kUnsupportedContentType, kTooLarge };
/// The reason of the condition that says so.
[[nodiscard]] std::string_view refusal_reason(DeliveryRefusal refusal) noexcept;

/// A message that orders what becomes of one object.
struct ResourceMessage {
  /// The bytes of the JSON scalar as they came; "null" where there was none.
  std::string resource_generation_id = "null";
  bool id_missing = false;
  std::int64_t generation = 0;  ///< the hub's, > 0
  bool deleting = false;
  /// A deletion that names nothing but the uid: of what is known of it.
  bool bare = false;
  std::string uid, api_version, kind, ns, name;
  /// To be applied: without status and what servers write into metadata.
  krm::Json manifest;
};

/// Why a message is not carried out, and what could be read of it for the answer.
struct RefusedMessage {
  DeliveryRefusal refusal = DeliveryRefusal::kInvalidManifest;
  std::string message;
  std::string resource_generation_id = "null";
  std::int64_t generation = 0;  ///< 0: none was readable
};

struct ResourceMessageBounds {
  UnpackBounds unpacked;
  std::size_t manifest_bytes = std::size_t{3} << 19;  ///< 1.5 MiB of JSON
};

/// Reads what came on `<prefix><client>/<topic_uid>/content`. Source: CM-8, CM-9, CM-14, CM-15.
/// Strict: JSON of RFC 8259 in UTF-8, at most 256 deep, no member twice, no NUL.
/// Cost: a copy of the payload and its tree. Threads: any.
[[nodiscard]] tl::expected<ResourceMessage, RefusedMessage> parse_resource_message(
    std::string_view content_type, std::string_view payload, std::string_view topic_uid,
    const ResourceMessageBounds& bounds);

/// The text of a member of the outermost object. @param json  is valid JSON. "": there is none.
[[nodiscard]] std::string_view raw_member(std::string_view json, std::string_view name) noexcept;

/// What a hub sends. @param resource_generation_id  JSON; @param content  the manifest
[[nodiscard]] std::string encode_resource_message(std::int64_t sent_timestamp,
                                                  std::string_view resource_generation_id,
                                                  const krm::Json& content);

}  // namespace kintsugi::workers
