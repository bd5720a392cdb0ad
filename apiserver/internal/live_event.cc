#include "apiserver/internal/live_event.h"

#include <string>

#include "krm/protobuf.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

std::string_view type_name(WatchType type) noexcept {
  switch (type) {
    case WatchType::kAdded:
      return "ADDED";
    case WatchType::kModified:
      return "MODIFIED";
    case WatchType::kDeleted:
      return "DELETED";
  }
  return "";
}

/// The event as its encoding frames it.
SharedBytes framed(const WatchEncoding& encoding, std::string_view type, std::string_view object) {
  if (encoding.form().format == Format::kProtobuf) {
    const Expected<krm::Json> parsed = krm::Json::parse(object);
    const std::optional<std::string> message =
        parsed ? krm::encode_protobuf(*parsed) : std::nullopt;
    return message ? SharedBytes(krm::protobuf_watch_frame(type, *message)) : SharedBytes();
  }
  std::string head = "{\"type\":\"";
  head += type;
  head += "\",\"object\":";
  return {head, object, "}\n"};
}

}  // namespace

SharedBytes encode_event(const WatchEncoding& encoding, WatchType type, std::string_view value,
                         store::Revision revision, bool with_columns) {
  std::string object;
  if (!encoding.append_event_object(object, value, revision, with_columns)) {
    return {};
  }
  return framed(encoding, type_name(type), object);
}

SharedBytes encode_object_event(const WatchEncoding& encoding, WatchType type,
                                const krm::Json& object, bool with_columns) {
  return framed(encoding, type_name(type), encoding.event_object_text(object, with_columns));
}

SharedBytes encode_bookmark(const WatchEncoding& encoding, store::Revision revision,
                            bool initial_end, bool with_columns) {
  return framed(encoding, "BOOKMARK",
                encoding.bookmark_object(revision, initial_end, with_columns));
}

SharedBytes encode_error_event(const WatchEncoding& encoding, const Error& error) {
  return framed(encoding, "ERROR", krm::to_status(error).dump());
}

LiveEvent::LiveEvent(const store::Event& event) : event_(event) {
  const bool deleted = event.type == store::EventType::kDelete;
  if (!event.previous.empty()) {
    before_.emplace(event.key, event.previous.view(), event.previous_modified);
  } else if (deleted && !event.value.empty()) {
    before_.emplace(event.key, event.value.view(), event.revision);
  }
  if (!deleted) {
    after_.emplace(event.key, event.value.view(), event.revision);
  }
}

std::optional<WatchType> LiveEvent::seen_as(const Selection& selection) {
  const bool before = before_ && selection.matches(*before_);
  const bool after = after_ && selection.matches(*after_);
  if (before) {
    return after ? WatchType::kModified : WatchType::kDeleted;
  }
  if (after) {
    return before_ && selection.knows(*before_) ? WatchType::kModified : WatchType::kAdded;
  }
  return std::nullopt;
}

std::string_view LiveEvent::value(WatchType type) const noexcept {
  const bool deleted = event_.type == store::EventType::kDelete;
  if (type == WatchType::kDeleted && (!deleted || event_.value.empty())) {
    return event_.previous.view();  // the last content that the watch could see
  }
  return event_.value.view();
}

const SharedBytes& LiveEvent::bytes(const WatchEncoding& encoding, WatchType type,
                                    bool with_columns) {
  for (const Encoded& known : encoded_) {
    if (known.encoding == &encoding && known.type == type && known.with_columns == with_columns) {
      return known.bytes;
    }
  }
  encoded_.push_back({&encoding, type, with_columns,
                      encode_event(encoding, type, value(type), event_.revision, with_columns)});
  return encoded_.back().bytes;
}

}  // namespace kintsugi::apiserver::internal
