#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "aggregation/bytes/watch_text.h"
#include "base/error.h"

/// Protobuf that no shard has sent (AGG-512, AGG-1301, AGG-1401, AGG-1502): the counterpart of
/// watch_text.h, and the marker.
namespace kintsugi::aggregation {

/// What a made ObjectMeta says; "" is left out.
struct ProtoMeta {
  std::string_view name, ns, uid, resource_version;
  std::string_view cluster;  ///< annotation kcp.io/cluster
  bool initial_end = false;  ///< annotation k8s.io/initial-events-end
  std::string_view kept;     ///< of proto_kept_fields()
};

/// labels and ownerReferences of an ObjectMeta message, as fields that can be put into another.
[[nodiscard]] std::string proto_kept_fields(std::string_view object_meta);

/// A frame, with its length, whose object has nothing but metadata. @param type "DELETED", ….
[[nodiscard]] std::string proto_meta_event(std::string_view type, const StreamKind& kind,
                                           const ProtoMeta& meta);
/// A BOOKMARK frame.
[[nodiscard]] std::string proto_bookmark_event(const StreamKind& kind, std::string_view cursor,
                                               bool initial_end);
/// An ERROR frame with a Status.
[[nodiscard]] std::string proto_error_event(const Error& error);

/// What makes an object message carry an annotation when it is appended to it; one of the same key
/// in the message is replaced (a second field 1 merges into the first).
[[nodiscard]] std::string proto_annotation_suffix(std::string_view key, std::string_view value);
/// The frame, or the enveloped object, with `suffix` appended to its object's message. nullopt: it
/// cannot be understood.
[[nodiscard]] std::optional<std::string> proto_event_with(std::string_view frame,
                                                          std::string_view suffix);
[[nodiscard]] std::optional<std::string> proto_object_with(std::string_view enveloped,
                                                           std::string_view suffix);

/// What stands before the object's message of `size` bytes in an envelope, and what follows it.
[[nodiscard]] std::string proto_envelope_head(std::string_view api_version, std::string_view kind,
                                              std::size_t size);
inline constexpr std::string_view kProtoEnvelopeTail("\x1a\0\x22\0", 4);
/// ListMeta as field 1 of a list's message. @param shard_info raw message; "" none
[[nodiscard]] std::string proto_list_meta(std::string_view resource_version,
                                          std::string_view continue_token,
                                          std::string_view shard_info);

}  // namespace kintsugi::aggregation
