#include "aggregation/bytes/proto_split.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "krm/annotations.h"
#include "krm/protobuf.h"
#include "krm/protobuf_wire.h"

namespace kintsugi::aggregation {
namespace {

using krm::WireField;
using krm::WireReader;
using krm::WireType;

constexpr std::string_view kMagic("k8s\0", 4);
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kBeginning = 4U << 10;  // of a frame that is too large: its names
constexpr char kTypeField = '\x0a';           // what a WatchEvent begins with
constexpr std::size_t kMaxEnvelope = 1U << 20;
constexpr std::size_t kMaxHead = 20;  // two numbers
constexpr std::uint64_t kMaxField = 0x1FFF'FFFF;

// Unknown
constexpr std::uint32_t kTypeMeta = 1, kRaw = 2, kContentEncoding = 3, kContentType = 4;
// List messages
constexpr std::uint32_t kListMeta = 1, kItems = 2;

bool read_annotation(std::string_view entry, ObjectFacts& out) {
  std::string_view key, value;
  WireReader reader(entry);
  WireField field;
  while (reader.next(field)) {
    if (field.field == 1) {
      key = field.bytes;
    } else if (field.field == 2) {
      value = field.bytes;
    }
  }
  if (key == krm::kClusterAnnotation) {
    out.cluster = value;
  } else if (key == krm::kInitialEventsEndAnnotation) {
    out.initial_end = value == "true";
  }
  return !reader.malformed();
}

bool read_object_meta(std::string_view message, ObjectFacts& out) {
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    if (field.type != WireType::kBytes) {
      continue;
    }
    switch (field.field) {
      case 1:
        out.name = field.bytes;
        break;
      case 3:
        out.ns = field.bytes;
        break;
      case 5:
        out.uid = field.bytes;
        break;
      case 6:
        out.revision = parse_decimal(field.bytes).value_or(0);
        break;
      case 12:
        if (!read_annotation(field.bytes, out)) {
          return false;
        }
        break;
      default:
        break;
    }
  }
  return !reader.malformed();
}

/// The message in a plain envelope, kind and apiVersion into `out`.
std::optional<std::string_view> open_envelope(std::string_view enveloped, ObjectFacts& out) {
  const Expected<krm::ProtobufEnvelope> envelope = krm::parse_protobuf_envelope(enveloped);
  if (!envelope || !envelope->content_encoding.empty() ||
      (!envelope->content_type.empty() && envelope->content_type != krm::kProtobufMediaType)) {
    return std::nullopt;
  }
  out.kind = envelope->kind;
  out.api_version = envelope->api_version;
  return envelope->raw;
}

/// How many bytes the number at the start of `bytes` takes; 0: it does not end there.
std::size_t read_varint(std::string_view bytes, std::uint64_t& out) noexcept {
  out = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const auto byte = static_cast<std::uint8_t>(bytes[i]);
    out |= static_cast<std::uint64_t>(byte & 0x7F) << (7 * i);
    if ((byte & 0x80) == 0) {
      return i + 1;
    }
  }
  return 0;
}

std::uint64_t frame_size(std::string_view bytes) noexcept {
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    size = size << 8 | static_cast<std::uint8_t>(bytes[i]);
  }
  return size;
}

}  // namespace

/// True: there is enough of it, or it is no event.
bool FrameSplitter::keep_beginning(std::string_view& bytes) {
  const std::size_t enough = kLengthBytes + kBeginning;
  partial_ += bytes.substr(0, enough - std::min(partial_.size(), enough));
  bytes = {};
  return partial_.size() >= enough ||
         (partial_.size() > kLengthBytes && partial_[kLengthBytes] != kTypeField);
}

FrameSplitter::Fault FrameSplitter::feed(std::string_view bytes,
                                         const std::function<void(std::string_view)>& take) {
  while (!bytes.empty()) {
    if (partial_.size() < kLengthBytes && (!partial_.empty() || bytes.size() < kLengthBytes)) {
      const std::size_t part = std::min(kLengthBytes - partial_.size(), bytes.size());
      partial_ += bytes.substr(0, part);
      bytes.remove_prefix(part);
      if (partial_.size() < kLengthBytes) {
        return Fault::kNone;
      }
    }
    const std::uint64_t size = frame_size(partial_.empty() ? bytes : std::string_view(partial_));
    if (size > max_bytes_) {
      return keep_beginning(bytes) ? Fault::kTooLarge : Fault::kNone;
    }
    const std::size_t whole = kLengthBytes + static_cast<std::size_t>(size);
    const std::size_t part = std::min(whole - partial_.size(), bytes.size());
    if (partial_.empty() && part == whole) {
      take(bytes.substr(0, whole));
    } else {
      partial_ += bytes.substr(0, part);
      if (partial_.size() == whole) {
        take(partial_);
        partial_.clear();
      }
    }
    bytes.remove_prefix(part);
  }
  return Fault::kNone;
}

std::optional<ObjectFacts> proto_item_facts(std::string_view message) {
  ObjectFacts out;
  bool found = false;
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    if (field.field != 1 || field.type != WireType::kBytes) {
      continue;
    }
    if (!read_object_meta(field.bytes, out)) {
      return std::nullopt;
    }
    out.metadata = found ? out.metadata : field.bytes;
    found = true;
  }
  return found && !reader.malformed() ? std::optional(out) : std::nullopt;
}

std::optional<ObjectFacts> proto_object_facts(std::string_view enveloped) {
  ObjectFacts named;
  const std::optional<std::string_view> message = open_envelope(enveloped, named);
  if (!message) {
    return std::nullopt;
  }
  std::optional<ObjectFacts> out = proto_item_facts(*message);
  if (out) {
    out->kind = named.kind;
    out->api_version = named.api_version;
  }
  return out;
}

std::optional<EventFacts> proto_event_facts(std::string_view frame) {
  if (frame.size() < kLengthBytes || frame_size(frame) != frame.size() - kLengthBytes) {
    return std::nullopt;
  }
  EventFacts out;
  WireReader reader(frame.substr(kLengthBytes));
  WireField field;
  while (reader.next(field)) {
    if (field.field == 1 && field.type == WireType::kBytes) {
      out.type = event_type(field.bytes);
    } else if (field.field == 2 && field.type == WireType::kBytes) {
      WireReader object(field.bytes);
      WireField raw;
      while (object.next(raw)) {
        if (raw.field == 1 && raw.type == WireType::kBytes) {
          out.object = raw.bytes;
        }
      }
      if (object.malformed()) {
        return std::nullopt;
      }
    }
  }
  if (reader.malformed() || out.type == EventType::kUnknown || out.object.empty()) {
    return std::nullopt;
  }
  if (out.type == EventType::kError) {
    return out;
  }
  const std::optional<ObjectFacts> facts = proto_object_facts(out.object);
  if (!facts) {
    return std::nullopt;
  }
  out.facts = *facts;
  return out;
}

void ProtoListSplitter::spend(std::size_t size) noexcept {
  if (in_raw_) {
    raw_left_ -= size;
  }
}

bool ProtoListSplitter::read_type(std::string_view message) {
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    if (field.field == 1) {
      envelope_.api_version = field.bytes;
    } else if (field.field == 2) {
      envelope_.kind = field.bytes;
    }
  }
  return !reader.malformed();
}

bool ProtoListSplitter::read_list_meta(std::string_view message) {
  WireReader reader(message);
  WireField field;
  while (reader.next(field)) {
    if (field.field == 2) {
      envelope_.resource_version = field.bytes;
    } else if (field.field == 3) {
      envelope_.continue_token = field.bytes;
    } else if (field.field == 4) {
      envelope_.remaining = static_cast<std::int64_t>(field.number);
    } else if (field.field == 5) {
      envelope_.shard_info = field.bytes;
    }
  }
  return !reader.malformed();
}

bool ProtoListSplitter::finish_value(std::string_view value,
                                     const std::function<void(std::string_view)>& take) {
  state_ = State::kTag;
  if (in_raw_) {
    if (field_ == kItems) {
      take(value);
      return true;
    }
    return field_ != kListMeta || read_list_meta(value);
  }
  if (field_ == kTypeMeta) {
    return read_type(value);
  }
  return field_ != kContentEncoding && field_ != kContentType
             ? true
             : value.empty() || (field_ == kContentType && value == krm::kProtobufMediaType);
}

/// Takes bytes of a tag and its length, or its number, until both are there.
ProtoListSplitter::Fault ProtoListSplitter::read_head(std::string_view& bytes) {
  const std::size_t before = head_.size();
  std::size_t most = std::min(kMaxHead - before, bytes.size());
  if (in_raw_) {
    most = static_cast<std::size_t>(std::min<std::uint64_t>(most, raw_left_));
  }
  head_ += bytes.substr(0, most);
  std::uint64_t tag = 0, number = 0;
  std::size_t used = read_varint(head_, tag);
  const auto type = static_cast<unsigned>(tag & 7);
  const bool has_number = type == 0 || type == 2;
  if (used > 0 && has_number) {
    const std::size_t more = read_varint(std::string_view(head_).substr(used), number);
    used = more == 0 ? 0 : used + more;
  }
  if (used == 0) {  // not all of it has come, or there is no end to it
    spend(most);
    bytes.remove_prefix(most);
    return head_.size() == kMaxHead || (in_raw_ && raw_left_ == 0) ? Fault::kMalformed
                                                                   : Fault::kNone;
  }
  spend(used - before);
  bytes.remove_prefix(used - before);
  head_.clear();
  const std::uint64_t size = type == 2 ? number : type == 1 ? 8 : type == 5 ? 4 : 0;
  const bool known = tag >> 3 <= (in_raw_ ? kItems : kContentType);
  if (tag >> 3 == 0 || tag >> 3 > kMaxField || (!has_number && type != 1 && type != 5) ||
      (known && type != 2) || (in_raw_ && size > raw_left_)) {
    return Fault::kMalformed;
  }
  field_ = static_cast<std::uint32_t>(tag >> 3);
  if (!in_raw_ && field_ == kRaw) {
    raw_left_ = size;
    in_raw_ = size > 0;
    return std::exchange(has_raw_, true) ? Fault::kMalformed : Fault::kNone;
  }
  if (size > (in_raw_ && field_ == kItems ? max_item_ : kMaxEnvelope)) {
    return Fault::kTooLarge;
  }
  need_ = static_cast<std::size_t>(size);
  state_ = State::kValue;
  return Fault::kNone;
}

ProtoListSplitter::Fault ProtoListSplitter::feed(
    std::string_view bytes, const std::function<void(std::string_view)>& take) {
  while (!bytes.empty() || (state_ == State::kValue && need_ == 0)) {
    switch (state_) {
      case State::kMagic: {
        const std::size_t part = std::min(kMagic.size() - head_.size(), bytes.size());
        head_ += bytes.substr(0, part);
        bytes.remove_prefix(part);
        if (kMagic.substr(0, head_.size()) != head_) {
          return Fault::kMalformed;
        }
        if (head_.size() == kMagic.size()) {
          head_.clear();
          state_ = State::kTag;
        }
        break;
      }
      case State::kTag:
        if (const Fault fault = read_head(bytes); fault != Fault::kNone) {
          return fault;
        }
        break;
      case State::kValue: {
        const std::size_t part = std::min(need_ - value_.size(), bytes.size());
        const std::string_view piece = bytes.substr(0, part);
        bytes.remove_prefix(part);
        spend(part);
        bool good = true;
        if (value_.empty() && part == need_) {
          good = finish_value(piece, take);
        } else {
          value_ += piece;
          if (value_.size() == need_) {
            good = finish_value(value_, take);
            value_.clear();
          }
        }
        if (!good) {
          return Fault::kMalformed;
        }
        break;
      }
    }
    in_raw_ = in_raw_ && (raw_left_ > 0 || state_ == State::kValue);
  }
  return Fault::kNone;
}

}  // namespace kintsugi::aggregation
