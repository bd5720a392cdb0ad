#include "aggregation/bytes/proto_build.h"

#include "krm/annotations.h"
#include "krm/protobuf.h"
#include "krm/protobuf_wire.h"
#include "krm/status.h"

namespace kintsugi::aggregation {
namespace {

using krm::put_bytes;
using krm::WireField;
using krm::WireReader;
using krm::WireType;

constexpr std::string_view kMagic("k8s\0", 4);
constexpr std::size_t kLengthBytes = 4;
constexpr std::uint32_t kLabels = 11, kAnnotations = 12, kOwnerReferences = 13;

void put_text(std::string& out, std::uint32_t field, std::string_view text) {
  if (!text.empty()) {
    put_bytes(out, field, text);
  }
}

void put_entry(std::string& out, std::uint32_t field, std::string_view key,
               std::string_view value) {
  std::string entry;
  put_bytes(entry, 1, key);
  put_bytes(entry, 2, value);
  put_bytes(out, field, entry);
}

std::string framed(std::string_view event) {
  std::string out;
  out.reserve(event.size() + kLengthBytes);
  for (const unsigned shift : {24U, 16U, 8U, 0U}) {
    out.push_back(static_cast<char>(event.size() >> shift & 0xFF));
  }
  out += event;
  return out;
}

/// Copies a message with another content of its byte fields `field`. False: malformed.
template <class Change>
bool copy_with(std::string_view message, std::uint32_t changed, std::string& out,
               const Change& change) {
  WireReader reader(message);
  WireField field;
  bool found = false;
  while (reader.next(field)) {
    if (field.type == WireType::kVarint) {
      krm::put_number(out, field.field, field.number);
    } else if (field.type != WireType::kBytes) {
      return false;  // no envelope has these
    } else if (field.field != changed) {
      put_bytes(out, field.field, field.bytes);
    } else if (found || !change(field.bytes)) {
      return false;
    } else {
      found = true;
    }
  }
  return found && !reader.malformed();
}

}  // namespace

std::string proto_kept_fields(std::string_view object_meta) {
  std::string out;
  WireReader reader(object_meta);
  WireField field;
  while (reader.next(field)) {
    if (field.type == WireType::kBytes &&
        (field.field == kLabels || field.field == kOwnerReferences)) {
      put_bytes(out, field.field, field.bytes);
    }
  }
  return out;
}

std::string proto_meta_event(std::string_view type, const StreamKind& kind, const ProtoMeta& meta) {
  std::string metadata;
  put_text(metadata, 1, meta.name);
  put_text(metadata, 3, meta.ns);
  put_text(metadata, 5, meta.uid);
  put_text(metadata, 6, meta.resource_version);
  metadata += meta.kept;
  if (!meta.cluster.empty()) {
    put_entry(metadata, kAnnotations, krm::kClusterAnnotation, meta.cluster);
  }
  if (meta.initial_end) {
    put_entry(metadata, kAnnotations, krm::kInitialEventsEndAnnotation, "true");
  }
  std::string message;
  put_bytes(message, 1, metadata);
  std::string object = proto_envelope_head(kind.api_version, kind.kind, message.size());
  object += message;
  object += kProtoEnvelopeTail;
  return krm::protobuf_watch_frame(type, object);
}

std::string proto_bookmark_event(const StreamKind& kind, std::string_view cursor,
                                 bool initial_end) {
  ProtoMeta meta;
  meta.resource_version = cursor;
  meta.initial_end = initial_end;
  return proto_meta_event("BOOKMARK", kind, meta);
}

std::string proto_error_event(const Error& error) {
  return krm::protobuf_watch_frame(
      "ERROR", krm::encode_protobuf(krm::to_status(error)).value_or(std::string()));
}

std::string proto_annotation_suffix(std::string_view key, std::string_view value) {
  std::string metadata, out;
  put_entry(metadata, kAnnotations, key, value);
  put_bytes(out, 1, metadata);
  return out;
}

std::optional<std::string> proto_object_with(std::string_view enveloped, std::string_view suffix) {
  if (!enveloped.starts_with(kMagic)) {
    return std::nullopt;
  }
  std::string out(kMagic);
  out.reserve(enveloped.size() + suffix.size() + 8);
  const auto longer = [&](std::string_view message) {
    krm::put_varint(out, 2U << 3 | 2U);
    krm::put_varint(out, message.size() + suffix.size());
    out += message;
    out += suffix;
    return true;
  };
  return copy_with(enveloped.substr(kMagic.size()), 2, out, longer) ? std::optional(std::move(out))
                                                                    : std::nullopt;
}

std::optional<std::string> proto_event_with(std::string_view frame, std::string_view suffix) {
  if (frame.size() < kLengthBytes) {
    return std::nullopt;
  }
  std::string event;
  event.reserve(frame.size() + suffix.size() + 16);
  const bool good = copy_with(frame.substr(kLengthBytes), 2, event, [&](std::string_view object) {
    std::string raw;
    const bool whole = copy_with(object, 1, raw, [&](std::string_view enveloped) {
      const std::optional<std::string> changed = proto_object_with(enveloped, suffix);
      if (changed) {
        put_bytes(raw, 1, *changed);
      }
      return changed.has_value();
    });
    put_bytes(event, 2, raw);
    return whole;
  });
  return good ? std::optional(framed(event)) : std::nullopt;
}

std::string proto_envelope_head(std::string_view api_version, std::string_view kind,
                                std::size_t size) {
  std::string type;
  put_bytes(type, 1, api_version);
  put_bytes(type, 2, kind);
  std::string out(kMagic);
  put_bytes(out, 1, type);
  krm::put_varint(out, 2U << 3 | 2U);
  krm::put_varint(out, size);
  return out;
}

std::string proto_list_meta(std::string_view resource_version, std::string_view continue_token,
                            std::string_view shard_info) {
  std::string meta, out;
  put_bytes(meta, 1, "");
  put_bytes(meta, 2, resource_version);
  put_bytes(meta, 3, continue_token);
  put_text(meta, 5, shard_info);
  put_bytes(out, 1, meta);
  return out;
}

}  // namespace kintsugi::aggregation
