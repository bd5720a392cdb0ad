#include "aggregation/bytes/watch_coding.h"

#include "aggregation/bytes/marker.h"
#include "aggregation/bytes/media_type.h"
#include "aggregation/bytes/proto_build.h"
#include "aggregation/bytes/proto_split.h"
#include "base/strings.h"
#include "krm/json.h"
#include "krm/protobuf.h"

namespace kintsugi::aggregation {
namespace {

std::string json_marked(std::string_view event, std::string_view marker) {
  return event_with_marker(event, marker);
}

std::string protobuf_marked(std::string_view event, std::string_view marker) {
  return proto_event_with(event, proto_annotation_suffix(kMarker, marker)).value_or(std::string());
}

std::string protobuf_bookmark(const StreamKind& kind, std::string_view cursor, bool initial_end,
                              std::string_view /*columns*/) {
  return proto_bookmark_event(kind, cursor, initial_end);
}

std::int64_t code_of(const Expected<krm::Json>& status) {
  const krm::Json* code = status ? status->find("code") : nullptr;
  return code != nullptr ? code->as_integer() : 0;
}

std::int64_t json_error_code(std::string_view object) { return code_of(krm::Json::parse(object)); }

std::int64_t protobuf_error_code(std::string_view object) {
  return code_of(krm::decode_protobuf(object));
}

std::string protobuf_item(std::string_view type, const StreamKind& kind,
                          const ObjectFacts& /*facts*/, std::string_view item) {
  std::string object = proto_envelope_head(kind.api_version, kind.kind, item.size());
  object += item;
  object += kProtoEnvelopeTail;
  return krm::protobuf_watch_frame(type, object);
}

std::string protobuf_deleted(const StreamKind& kind, const ObjectFacts& facts,
                             std::uint64_t revision, std::string_view kept) {
  const std::string version = std::to_string(revision);
  return proto_meta_event("DELETED", kind,
                          {facts.name, facts.ns, facts.uid, version, facts.cluster, false, kept});
}

constexpr WatchCoding kJson{
    "application/json", "application/json", "\n",         false,
    event_facts,        bookmark_event,     error_event,  json_marked,
    item_event,         deleted_event,      kept_members, json_error_code,
};
constexpr WatchCoding kProtobuf{
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "",
    true,
    proto_event_facts,
    protobuf_bookmark,
    proto_error_event,
    protobuf_marked,
    protobuf_item,
    protobuf_deleted,
    proto_kept_fields,
    protobuf_error_code,
};

}  // namespace

const WatchCoding& json_coding() noexcept { return kJson; }
const WatchCoding& protobuf_coding() noexcept { return kProtobuf; }

std::string accept_only(std::string_view accept, std::string_view type) {
  std::string out;
  for (const std::string_view clause : split(accept, ',')) {
    if (media_type(trim(clause)) == type) {
      out += out.empty() ? "" : ", ";
      out += trim(clause);
    }
  }
  return out;
}

const WatchCoding* coding_of(std::string_view content_type) noexcept {
  const std::string_view type = media_type(content_type);
  for (const WatchCoding* coding : {&kJson, &kProtobuf}) {
    if (type == coding->media_type) {
      return coding;
    }
  }
  return nullptr;
}

}  // namespace kintsugi::aggregation
