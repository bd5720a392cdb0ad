#include "proxy/merge/marker.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "krm/json.h"
#include "proxy/merge/json_scan.h"

namespace kintsugi::proxy {
namespace {

/// A span of the original text that something else replaces.
struct Edit {
  std::size_t begin = 0, end = 0;
  std::string text;
};
using Edits = std::vector<Edit>;

bool is_object(std::string_view raw) { return raw.size() >= 2 && raw.front() == '{'; }

std::string applied(std::string_view text, const Edits& edits) {
  std::string out;
  std::size_t size = text.size();
  for (const Edit& edit : edits) {
    size += edit.text.size();
  }
  out.reserve(size);
  std::size_t at = 0;
  for (const Edit& edit : edits) {
    out += text.substr(at, edit.begin - at);
    out += edit.text;
    at = edit.end;
  }
  out += text.substr(at);
  return out;
}

/// Collects what has to change in one text, in the order of the text.
class Marking {
 public:
  /// @param cluster  "": the marker is taken away.
  Marking(std::string_view text, std::string_view cluster)
      : text_(text),
        entry_(cluster.empty() ? std::string()
                               : '"' + std::string(kMarker) + "\":" + krm::Json(cluster).dump()) {}

  void take_object(std::string_view object) {
    MemberWalk walk(object);
    while (const auto member = walk.next()) {
      if (key_is(member->key, "metadata") && is_object(member->value)) {
        take_metadata(member->value);
      }
    }
  }

  void take_row(std::string_view row) {
    MemberWalk walk(row);
    while (const auto member = walk.next()) {
      if (key_is(member->key, "object") && is_object(member->value)) {
        take_object(member->value);
      }
    }
  }

  /// An object, or every row of a Table.
  void take_document(std::string_view document) {
    std::string_view rows;
    bool table = false;
    MemberWalk walk(document);
    while (const auto member = walk.next()) {
      table = table || (key_is(member->key, "kind") && member->value == "\"Table\"");
      if (key_is(member->key, "rows") && member->value.front() == '[') {
        rows = member->value;
      }
    }
    if (!table) {
      take_object(document);
      return;
    }
    std::size_t at = rows.find('{');
    while (at < rows.size()) {
      const std::size_t end = value_end(rows, at);
      if (end == std::string_view::npos) {
        return;
      }
      take_row(rows.substr(at, end - at));
      at = rows.find('{', end);
    }
  }

  [[nodiscard]] const Edits& edits() const noexcept { return edits_; }
  [[nodiscard]] std::string text() const { return applied(text_, edits_); }

 private:
  [[nodiscard]] std::size_t offset(std::string_view part) const {
    return static_cast<std::size_t>(part.data() - text_.data());
  }

  void take_metadata(std::string_view metadata) {
    MemberWalk walk(metadata);
    bool has_annotations = false, is_empty = true;
    while (const auto member = walk.next()) {
      is_empty = false;
      if (!key_is(member->key, "annotations")) {
        continue;
      }
      has_annotations = true;
      const std::size_t at = offset(member->value);
      if (is_object(member->value)) {
        take_annotations(member->value);
      } else if (!entry_.empty()) {
        edits_.push_back({at, at + member->value.size(), '{' + entry_ + '}'});
      }
    }
    if (!has_annotations && !entry_.empty() && !walk.broken()) {
      const std::size_t inside = offset(metadata) + 1;
      edits_.push_back({inside, inside, "\"annotations\":{" + entry_ + (is_empty ? "}" : "},")});
    }
  }

  /// The first entry becomes the marker, others of that name go with the comma before them, or
  /// behind them when they stand first.
  void take_annotations(std::string_view annotations) {
    const std::size_t begin = offset(annotations);
    std::vector<MemberWalk::Member> members;
    MemberWalk walk(annotations);
    bool has_marker = false;
    while (const auto member = walk.next()) {
      has_marker = has_marker || key_is(member->key, kMarker);
      members.push_back(*member);
    }
    if (walk.broken() || (!has_marker && entry_.empty())) {
      return;
    }
    if (!has_marker) {
      edits_.push_back({begin + 1, begin + 1, entry_ + (members.empty() ? "" : ",")});
      return;
    }
    std::string body = entry_;
    for (const MemberWalk::Member& member : members) {
      if (!key_is(member.key, kMarker)) {
        body += body.empty() ? "\"" : ",\"";
        body += text_.substr(offset(member.key), member.key.size() + 1);
        body += ':';
        body += member.value;
      }
    }
    edits_.push_back({begin, begin + annotations.size(), '{' + body + '}'});
  }

  std::string_view text_;
  std::string entry_;
  Edits edits_;
};

// Protobuf.

constexpr std::string_view kMagic("k8s\0", 4);
constexpr std::uint8_t kBytes = 2;  ///< wire type
constexpr std::uint8_t kRaw = 2;    ///< Unknown.raw
constexpr std::uint8_t kMetadata = 1, kAnnotations = 12, kMapKey = 1, kMapValue = 2;

std::uint32_t tag_of(std::uint32_t field) { return field << 3U | kBytes; }

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7U;
  }
  out += static_cast<char>(value);
}

void put_field(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_varint(out, tag_of(field));
  put_varint(out, bytes.size());
  out += bytes;
}

std::optional<std::uint64_t> take_varint(std::string_view& in) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(in.front());
    in.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
    if (byte < 0x80) {
      return value;
    }
  }
  return std::nullopt;
}

struct ProtoField {
  std::uint64_t number = 0;
  bool is_bytes = false;
  std::string_view value;  ///< of bytes
  std::string_view whole;  ///< with the tag
};

/// nullopt at the end, and with `broken` where nothing can be understood.
std::optional<ProtoField> take_field(std::string_view& in, bool& broken) {
  if (in.empty()) {
    return std::nullopt;
  }
  const std::string_view begin = in;
  const auto tag = take_varint(in);
  broken = true;
  if (!tag) {
    return std::nullopt;
  }
  std::size_t size = 0;
  ProtoField field{*tag >> 3U, false, {}, {}};
  switch (*tag & 7U) {
    case 0:
      if (!take_varint(in)) {
        return std::nullopt;
      }
      break;
    case 1:
      size = 8;
      break;
    case kBytes: {
      const auto length = take_varint(in);
      if (!length || *length > in.size()) {
        return std::nullopt;
      }
      size = static_cast<std::size_t>(*length);
      field.is_bytes = true;
      field.value = in.substr(0, size);
      break;
    }
    case 5:
      size = 4;
      break;
    default:
      return std::nullopt;
  }
  if (size > in.size()) {
    return std::nullopt;
  }
  in.remove_prefix(size);
  field.whole = begin.substr(0, begin.size() - in.size());
  broken = false;
  return field;
}

bool is_marker_entry(std::string_view entry) {
  bool broken = false, found = false;
  while (const auto field = take_field(entry, broken)) {
    if (field->number == kMapKey && field->is_bytes) {
      found = field->value == kMarker;  // of several the last one counts
    }
  }
  return found && !broken;
}

/// Rewrites the fields of a message one by one. @return nullopt: it is broken.
template <class Change>
std::optional<std::string> rewritten(std::string_view message, Change change) {
  std::string out;
  bool broken = false;
  while (const auto field = take_field(message, broken)) {
    if (!change(*field, out)) {
      out += field->whole;
    }
  }
  return broken ? std::nullopt : std::optional(std::move(out));
}

}  // namespace

std::string with_marker(std::string_view item, std::string_view cluster) {
  Marking marking(item, cluster);
  marking.take_object(item);
  if (marking.edits().empty()) {
    marking.take_row(item);
  }
  return marking.text();
}

std::string event_with_marker(std::string_view event, std::string_view cluster) {
  Marking marking(event, cluster);
  MemberWalk walk(event);
  while (const auto member = walk.next()) {
    if (key_is(member->key, "object") && is_object(member->value)) {
      marking.take_document(member->value);
    }
  }
  return marking.text();
}

std::string document_with_marker(std::string_view document, std::string_view cluster) {
  Marking marking(document, cluster);
  marking.take_document(document);
  return marking.text();
}

std::optional<std::string> without_marker(std::string_view object) {
  Marking marking(object, {});
  marking.take_object(object);
  return marking.edits().empty() ? std::nullopt : std::optional(marking.text());
}

std::string protobuf_marker(std::string_view cluster) {
  std::string entry, metadata, out;
  put_field(entry, kMapKey, kMarker);
  put_field(entry, kMapValue, cluster);
  put_field(metadata, kAnnotations, entry);
  put_field(out, kMetadata, metadata);
  return out;
}

std::optional<std::string> protobuf_without_marker(std::string_view document) {
  if (!document.starts_with(kMagic) || document.find(kMarker) == std::string_view::npos) {
    return std::nullopt;
  }
  bool is_broken = false, removed = false;
  const auto in_metadata = [&](const ProtoField& field, std::string& /*out*/) {
    const bool drop =
        field.number == kAnnotations && field.is_bytes && is_marker_entry(field.value);
    removed = removed || drop;
    return drop;
  };
  const auto in_object = [&](const ProtoField& field, std::string& out) {
    if (field.number != kMetadata || !field.is_bytes) {
      return false;
    }
    const auto metadata = rewritten(field.value, in_metadata);
    is_broken = is_broken || !metadata;
    put_field(out, kMetadata, metadata.value_or(""));
    return true;
  };
  const auto in_unknown = [&](const ProtoField& field, std::string& out) {
    if (field.number != kRaw || !field.is_bytes) {
      return false;
    }
    const auto object = rewritten(field.value, in_object);
    is_broken = is_broken || !object;
    put_field(out, kRaw, object.value_or(""));
    return true;
  };
  const auto unknown = rewritten(document.substr(kMagic.size()), in_unknown);
  if (!unknown || is_broken || !removed) {
    return std::nullopt;
  }
  return std::string(kMagic) + *unknown;
}

}  // namespace kintsugi::proxy
