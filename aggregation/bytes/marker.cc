#include "aggregation/bytes/marker.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "aggregation/bytes/json_split.h"
#include "krm/json.h"
#include "krm/protobuf_wire.h"

namespace kintsugi::aggregation {
namespace {

/// A span of the original text that something else replaces.
struct Edit {
  std::size_t begin = 0, end = 0;
  std::string text;
};
using Edits = std::vector<Edit>;

bool is_object(std::string_view raw) { return raw.size() >= 2 && raw.front() == '{'; }

std::string_view without_space(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

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

enum class Blanks : std::uint8_t { kStay, kGo };

/// Tells of annotations what to cut out so that no marker stays: each goes with the comma before
/// it, or behind it where nothing stays before it.
/// @param blanks  what becomes of those behind the comma of the first.
/// @param cut  gets spans of the annotations, in their order; it may move what was walked past.
template <class Cut>
void cut_markers(std::string_view annotations, Blanks blanks, Cut cut) {
  const auto offset = [&](const char* at) {
    return static_cast<std::size_t>(at - annotations.data());
  };
  std::size_t kept = 1;     // the end of what stays
  std::size_t leading = 0;  // the end of the last marker with nothing before it
  bool any = false;
  MemberWalk walk(annotations);
  while (const auto member = walk.next()) {
    const std::size_t end = offset(member->value.data()) + member->value.size();
    if (key_is(member->key, kMarker)) {
      if (any) {
        cut(kept, end);
        kept = end;
      } else {
        leading = end;
      }
      continue;
    }
    if (leading != 0 && !any) {
      cut(kept, blanks == Blanks::kStay ? annotations.find(',', leading) + 1
                                        : offset(member->key.data()) - 1);
    }
    any = true;
    kept = end;
  }
  if (leading != 0 && !any) {
    cut(kept, annotations.size() - 1);
  }
}

/// Collects what has to change in one text, in the order of the text.
class Marking {
 public:
  Marking(std::string_view text, std::string_view cluster)
      : text_(text), entry_('"' + std::string(kMarker) + "\":" + krm::Json(cluster).dump()) {}

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
    document = without_space(document);
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
      } else {
        edits_.push_back({at, at + member->value.size(), '{' + entry_ + '}'});
      }
    }
    if (!has_annotations && !walk.broken()) {
      const std::size_t inside = offset(metadata) + 1;
      edits_.push_back({inside, inside, "\"annotations\":{" + entry_ + (is_empty ? "}" : "},")});
    }
  }

  /// The first entry becomes the marker, others of that name go.
  void take_annotations(std::string_view annotations) {
    const std::size_t begin = offset(annotations);
    MemberWalk walk(annotations);
    bool has_others = false;
    while (const auto member = walk.next()) {
      has_others = has_others || !key_is(member->key, kMarker);
    }
    if (walk.broken()) {
      return;
    }
    edits_.push_back({begin + 1, begin + 1, entry_ + (has_others ? "," : "")});
    cut_markers(annotations, Blanks::kStay, [this, begin](std::size_t from, std::size_t to) {
      edits_.push_back({begin + from, begin + to, ""});
    });
  }

  std::string_view text_;
  std::string entry_;
  Edits edits_;
};

/// Takes markers out of a text, from its beginning to its end, by moving what stays to the front.
/// What has not been read yet is never touched.
class Cutting {
 public:
  explicit Cutting(std::string& text) noexcept : text_(text) {}

  void take_object(std::string_view object) {
    MemberWalk walk(object);
    while (const auto member = walk.next()) {
      if (!key_is(member->key, "metadata") || !is_object(member->value)) {
        continue;
      }
      MemberWalk inner(member->value);
      while (const auto part = inner.next()) {
        if (key_is(part->key, "annotations") && is_object(part->value) && has_marker(part->value)) {
          take_annotations(part->value);
        }
      }
    }
  }

  /// False: nothing was cut.
  bool finish() {
    if (read_ == 0) {
      return false;
    }
    cut(text_.size(), text_.size());
    text_.resize(written_);
    return true;
  }

 private:
  [[nodiscard]] std::size_t offset(const char* at) const {
    return static_cast<std::size_t>(at - text_.data());
  }

  static bool has_marker(std::string_view annotations) {
    bool found = false;
    MemberWalk walk(annotations);
    while (const auto member = walk.next()) {
      found = found || key_is(member->key, kMarker);
    }
    return found && !walk.broken();
  }

  void take_annotations(std::string_view annotations) {
    const std::size_t begin = offset(annotations.data());
    cut_markers(annotations, Blanks::kGo,
                [this, begin](std::size_t from, std::size_t to) { cut(begin + from, begin + to); });
  }

  void cut(std::size_t begin, std::size_t end) {
    std::copy(text_.begin() + static_cast<std::ptrdiff_t>(read_),
              text_.begin() + static_cast<std::ptrdiff_t>(begin),
              text_.begin() + static_cast<std::ptrdiff_t>(written_));
    written_ += begin - read_;
    read_ = end;
  }

  std::string& text_;
  std::size_t read_ = 0, written_ = 0;
};

// Protobuf.

constexpr std::string_view kMagic("k8s\0", 4);
constexpr std::uint32_t kRaw = 2;  ///< Unknown.raw
constexpr std::uint32_t kMetadata = 1, kAnnotations = 12, kMapKey = 1;

/// Copies a message. @param change  gets each field of bytes, returns false for those that stay as
/// they are. @return nullopt: the message is broken.
template <class Change>
std::optional<std::string> rewritten(std::string_view message, Change change) {
  std::string out;
  krm::WireReader reader(message);
  krm::WireField field;
  while (reader.next(field)) {
    switch (field.type) {
      case krm::WireType::kVarint:
        krm::put_number(out, field.field, field.number);
        break;
      case krm::WireType::kBytes:
        if (!change(field, out)) {
          krm::put_bytes(out, field.field, field.bytes);
        }
        break;
      case krm::WireType::kFixed64:
        krm::put_double(out, field.field, std::bit_cast<double>(field.number));
        break;
      default:
        return std::nullopt;  // no type of Kubernetes has these
    }
  }
  return reader.malformed() ? std::nullopt : std::optional(std::move(out));
}

bool is_marker_entry(std::string_view entry) {
  bool found = false;
  krm::WireReader reader(entry);
  krm::WireField field;
  while (reader.next(field)) {
    if (field.field == kMapKey && field.type == krm::WireType::kBytes) {
      found = field.bytes == kMarker;  // of several the last one counts
    }
  }
  return found;
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

std::optional<std::string> marked_quickly(std::string_view event, const EventFacts& facts,
                                          std::string_view cluster) {
  const ObjectFacts& object = facts.facts;
  const bool bare = object.annotations.empty();
  const std::string_view span = bare ? object.metadata : object.annotations;
  // Keys with escapes may be the marker in disguise.
  if (!object.cluster.empty() || object.kind == "Table" || span.size() < 2 || span[0] != '{' ||
      span.find('\\') != std::string_view::npos ||
      (bare && span.find("\"annotations\"") != std::string_view::npos)) {
    return std::nullopt;
  }
  const bool empty = span.find_first_not_of(" \t\r\n", 1) == span.size() - 1;
  const auto at = static_cast<std::size_t>(span.data() - event.data()) + 1;
  std::string out;
  out.reserve(event.size() + kMarker.size() + cluster.size() + 32);
  out += event.substr(0, at);
  out += bare ? "\"annotations\":{\"" : "\"";
  out += kMarker;
  out += "\":\"";
  out += cluster;
  out += bare ? "\"}" : "\"";
  out += empty ? "" : ",";
  out += event.substr(at);
  return out;
}

std::string document_with_marker(std::string_view document, std::string_view cluster) {
  Marking marking(document, cluster);
  marking.take_document(document);
  return marking.text();
}

bool remove_marker(std::string& object) {
  Cutting cutting(object);
  cutting.take_object(without_space(object));
  return cutting.finish();
}

std::optional<std::string> without_marker(std::string_view object) {
  std::string bare(object);
  return remove_marker(bare) ? std::optional(std::move(bare)) : std::nullopt;
}

std::optional<std::string> protobuf_without_marker(std::string_view document) {
  if (!document.starts_with(kMagic) || document.find(kMarker) == std::string_view::npos) {
    return std::nullopt;
  }
  bool is_broken = false, removed = false;
  const auto within = [&](std::uint32_t number, auto inside) {
    return [&is_broken, number, inside](const krm::WireField& field, std::string& out) {
      if (field.field != number) {
        return false;
      }
      const auto changed = rewritten(field.bytes, inside);
      is_broken = is_broken || !changed;
      krm::put_bytes(out, number, changed.value_or(""));
      return true;
    };
  };
  const auto drop = [&removed](const krm::WireField& field, std::string& /*out*/) {
    const bool is_marker = field.field == kAnnotations && is_marker_entry(field.bytes);
    removed = removed || is_marker;
    return is_marker;
  };
  const auto whole =
      rewritten(document.substr(kMagic.size()), within(kRaw, within(kMetadata, drop)));
  if (!whole || is_broken || !removed) {
    return std::nullopt;
  }
  return std::string(kMagic) + *whole;
}

}  // namespace kintsugi::aggregation
