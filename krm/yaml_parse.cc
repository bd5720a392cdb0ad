#include <yaml.h>

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "krm/go_text.h"
#include "krm/internal/yaml_scalar.h"
#include "krm/yaml.h"
#include "krm/yaml_documents.h"

namespace kintsugi::krm {
namespace {

constexpr std::size_t kMaxDepth = 1000;
constexpr std::size_t kMaxDuplicates = 100;
constexpr std::size_t kExpansion = 10;
constexpr std::size_t kFreeExpansion = 64U << 10U;
constexpr std::string_view kYamlTag = "tag:yaml.org,2002:";

std::string_view view(const yaml_char_t* text) {
  return text == nullptr ? std::string_view() : reinterpret_cast<const char*>(text);
}

/// Bytes that a copy takes, roughly.
std::size_t weight(const Json& value) {
  std::size_t sum = sizeof(Json) + value.as_string().size();
  for (const Json& item : value.items()) {
    sum += weight(item);
  }
  for (const JsonMember& member : value.members()) {
    sum += weight(member.value) + sizeof(std::string) + member.key.size();
  }
  return sum;
}

/// An event that frees itself.
struct Event {
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { yaml_event_delete(&raw); }
  yaml_event_t raw{};
};

/// A mapping or sequence whose end has not been seen.
struct Frame {
  struct Entry {
    std::string key;
    std::size_t line;
    Json value;
  };
  bool is_map = false;
  bool has_key = false;
  bool key_is_merge = false;
  std::string key;
  std::size_t key_line = 0;
  std::string anchor;
  std::vector<Entry> entries;  // maps
  std::vector<Json> merged;    // values of merge keys, the first one wins
  Json::Array items;           // sequences
};

class Composer {
 public:
  Composer(std::string_view text, YamlReport* report)
      : budget_(text.size() * kExpansion + kFreeExpansion), report_(report) {
    ready_ = yaml_parser_initialize(&parser_) != 0;
    if (ready_) {
      yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
      yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                   text.size());
    }
  }
  Composer(const Composer&) = delete;
  Composer& operator=(const Composer&) = delete;
  ~Composer() {
    if (ready_) {
      yaml_parser_delete(&parser_);
    }
  }

  Expected<Json> run() {
    bool done = !ready_;
    while (!done && fault_.empty()) {
      Event event;
      if (yaml_parser_parse(&parser_, &event.raw) == 0) {
        syntax_fault();
        break;
      }
      done = event.raw.type == YAML_STREAM_END_EVENT ||
             (event.raw.type == YAML_DOCUMENT_END_EVENT && !whole_);
      take(event.raw);
    }
    if (!fault_.empty()) {
      return fail(code_, "error converting YAML to JSON: yaml: " + fault_);
    }
    return std::move(root_);
  }

 private:
  void refuse(std::size_t line, std::string_view what) {
    fault_ = "line " + std::to_string(line + 1) + ": ";
    fault_.append(what);
  }

  /// Lines are counted as go-yaml counts them.
  void syntax_fault() {
    std::size_t line =
        parser_.context_mark.line != 0 ? parser_.context_mark.line : parser_.problem_mark.line;
    if (line != 0 && parser_.error == YAML_SCANNER_ERROR) {
      ++line;
    }
    if (line != 0) {
      fault_ = "line " + std::to_string(line) + ": ";
    }
    fault_.append(parser_.problem != nullptr ? parser_.problem
                                             : "unknown problem parsing YAML content");
  }

  void take(const yaml_event_t& event) {
    const std::size_t line = event.start_mark.line;
    switch (event.type) {
      case YAML_DOCUMENT_START_EVENT:
        if (++documents_ > 1) {
          refuse(line, "expected a single document in the stream");
        }
        break;
      case YAML_ALIAS_EVENT:
        take_alias(std::string(view(event.data.alias.anchor)), line);
        break;
      case YAML_SCALAR_EVENT:
        take_scalar(event, line);
        break;
      case YAML_SEQUENCE_START_EVENT:
        open(false, view(event.data.sequence_start.anchor), line);
        break;
      case YAML_MAPPING_START_EVENT:
        open(true, view(event.data.mapping_start.anchor), line);
        break;
      case YAML_SEQUENCE_END_EVENT: {
        Frame frame = std::move(frames_.back());
        frames_.pop_back();
        finish(Json(std::move(frame.items)), frame.anchor, line);
        break;
      }
      case YAML_MAPPING_END_EVENT: {
        Frame frame = std::move(frames_.back());
        frames_.pop_back();
        Json map = close_map(frame);
        finish(std::move(map), frame.anchor, line);
        break;
      }
      default:
        break;
    }
  }

  void open(bool is_map, std::string_view anchor, std::size_t line) {
    if (frames_.size() >= kMaxDepth) {
      refuse(line, "exceeded max depth");
      return;
    }
    if (!frames_.empty() && frames_.back().is_map && !frames_.back().has_key) {
      refuse(line, "invalid map key: only scalars can be keys");
      return;
    }
    Frame frame;
    frame.is_map = is_map;
    frame.anchor = anchor;
    // What an older anchor of that name stood for is no longer meant.
    anchors_.erase(frame.anchor);
    frames_.push_back(std::move(frame));
  }

  void take_alias(const std::string& name, std::size_t line) {
    const auto found = anchors_.find(name);
    if (found == anchors_.end()) {
      const bool inside = std::any_of(frames_.begin(), frames_.end(),
                                      [&](const Frame& frame) { return frame.anchor == name; });
      refuse(line, inside ? "anchor '" + name + "' value contains itself"
                          : "unknown anchor '" + name + "' referenced");
      return;
    }
    if (found->second.cost > budget_) {
      code_ = Errc::kRequestEntityTooLarge;
      refuse(line, "document contains excessive aliasing");
      return;
    }
    budget_ -= found->second.cost;
    finish(Json(found->second.value), {}, line);
  }

  void take_scalar(const yaml_event_t& event, std::size_t line) {
    const auto& scalar = event.data.scalar;
    const std::string_view text(reinterpret_cast<const char*>(scalar.value), scalar.length);
    const bool plain = scalar.style == YAML_PLAIN_SCALAR_STYLE;
    const std::string_view tag = view(scalar.tag);
    const bool is_key = !frames_.empty() && frames_.back().is_map && !frames_.back().has_key;
    std::optional<Json> value = tagged(text, tag, plain);
    if (!value) {
      refuse(line, "cannot decode " + go_quote(text) + " as a JSON value");
      return;
    }
    if (is_key && plain && text == "<<" && tag.empty()) {
      frames_.back().has_key = true;
      frames_.back().key_is_merge = true;
      return;
    }
    finish(std::move(*value), std::string(view(scalar.anchor)), line);
  }

  static std::optional<Json> tagged(std::string_view text, std::string_view tag, bool plain) {
    if (tag.empty()) {
      return plain ? resolve_yaml_scalar(text) : std::optional<Json>(Json(text));
    }
    if (tag.substr(0, kYamlTag.size()) != kYamlTag) {
      return Json(text);
    }
    const std::string_view name = tag.substr(kYamlTag.size());
    if (name == "binary") {
      std::string compact;
      for (const char c : text) {
        if (c != '\n' && c != ' ' && c != '\r') {
          compact.push_back(c);
        }
      }
      std::optional<std::string> bytes = base64_decode(compact);
      // What is no text cannot stand in JSON.
      return bytes && is_valid_utf8(*bytes) ? std::optional<Json>(Json(std::move(*bytes)))
                                            : std::nullopt;
    }
    std::optional<Json> value = resolve_yaml_scalar(text);
    if (!value) {
      return std::nullopt;
    }
    const bool fits =
        (name == "int" && value->is_number() && !(value->type() == Json::Type::kDouble)) ||
        (name == "float" && value->is_number()) || (name == "bool" && value->is_bool()) ||
        (name == "null" && value->is_null());
    if (name == "int" || name == "float" || name == "bool" || name == "null") {
      return fits ? value : std::nullopt;
    }
    return Json(text);
  }

  /// A complete value: it becomes a key, a member, an element or the document.
  void finish(Json value, const std::string& anchor, std::size_t line) {
    if (!anchor.empty()) {
      const std::size_t cost = weight(value);
      if (cost > budget_) {
        code_ = Errc::kRequestEntityTooLarge;
        refuse(line, "document contains excessive aliasing");
        return;
      }
      budget_ -= cost;
      anchors_[anchor] = {value, cost};
    }
    if (frames_.empty()) {
      root_ = std::move(value);
      return;
    }
    Frame& frame = frames_.back();
    if (!frame.is_map) {
      frame.items.push_back(std::move(value));
    } else if (!frame.has_key) {
      take_key(frame, value, line);
    } else {
      frame.has_key = false;
      if (frame.key_is_merge) {
        frame.key_is_merge = false;
        take_merge(frame, std::move(value), line);
      } else {
        frame.entries.push_back({std::move(frame.key), frame.key_line, std::move(value)});
      }
    }
  }

  void take_key(Frame& frame, const Json& value, std::size_t line) {
    if (value.is_array() || value.is_object() || value.is_null()) {
      refuse(line, "invalid map key: only scalars can be keys");
      return;
    }
    frame.has_key = true;
    frame.key = value.is_string() ? std::string(value.as_string()) : value.dump();
    frame.key_line = line;
    if (report_ != nullptr && report_->collect_lines) {
      note_line(line);
    }
  }

  void note_line(std::size_t line) {
    std::string path;
    for (const Frame& frame : frames_) {
      path += frame.is_map ? (path.empty() ? "" : ".") + frame.key
                           : "[" + std::to_string(frame.items.size()) + "]";
    }
    report_->key_lines[path] = line + 1;
  }

  void take_merge(Frame& frame, Json value, std::size_t line) {
    if (value.is_object()) {
      frame.merged.push_back(std::move(value));
      return;
    }
    bool fits = value.is_array();
    for (Json& item : value.edit_items()) {
      fits = fits && item.is_object();
      frame.merged.push_back(std::move(item));
    }
    if (!fits) {
      refuse(line, "map merge requires map or sequence of maps as the value");
    }
  }

  Json close_map(Frame& frame) {
    std::vector<Frame::Entry>& entries = frame.entries;
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Frame::Entry& a, const Frame::Entry& b) { return a.key < b.key; });
    Json map = Json::object();
    Json::Object& members = map.edit_members();
    std::vector<const Frame::Entry*> doubled;
    for (Frame::Entry& entry : entries) {
      if (!members.empty() && members.back().key == entry.key) {
        members.back().value = std::move(entry.value);
        doubled.push_back(&entry);
      } else {
        members.push_back(JsonMember{entry.key, std::move(entry.value)});
      }
    }
    std::sort(doubled.begin(), doubled.end(),
              [](const auto* a, const auto* b) { return a->line < b->line; });
    for (const Frame::Entry* entry : doubled) {
      if (report_ != nullptr && report_->duplicate_keys.size() < kMaxDuplicates) {
        report_->duplicate_keys.push_back("line " + std::to_string(entry->line + 1) + ": key " +
                                          go_quote(entry->key) + " already set in map");
      }
    }
    for (Json& source : frame.merged) {
      for (JsonMember& member : source.edit_members()) {
        if (map.find(member.key) == nullptr) {
          map[member.key] = std::move(member.value);
        }
      }
    }
    return map;
  }

  struct Anchored {
    Json value;
    std::size_t cost = 0;
  };

  yaml_parser_t parser_{};
  bool ready_ = false;
  std::size_t budget_;
  YamlReport* const report_;
  const bool whole_ = report_ != nullptr && report_->collect_lines;
  std::size_t documents_ = 0;
  std::vector<Frame> frames_;
  StringMap<Anchored> anchors_;
  Json root_;
  Errc code_ = Errc::kBadRequest;
  std::string fault_;
};

}  // namespace

std::vector<std::string_view> yaml_documents(std::string_view text) {
  constexpr std::string_view kMark = "---";
  std::vector<std::string_view> out;
  std::size_t begin = 0;
  for (std::size_t line = 0; line < text.size();) {
    const std::string_view rest = text.substr(line);
    const char next = rest.size() > kMark.size() ? rest[kMark.size()] : '\n';
    if (rest.starts_with(kMark) &&
        std::string_view(" \t\r\n").find(next) != std::string_view::npos) {
      if (line > 0) {
        out.push_back(text.substr(begin, line - begin));
      }
      begin = std::min(text.find_first_not_of(" \t", line + kMark.size()), text.size());
    }
    const std::size_t end = rest.find('\n');
    line = end == std::string_view::npos ? text.size() : line + end + 1;
  }
  out.push_back(text.substr(begin));
  return out;
}

Expected<Json> parse_yaml(std::string_view text, YamlReport* report) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (report == nullptr && start != std::string_view::npos && text[start] == '{') {
    // JSON is YAML, and far quicker to read as what it is.
    if (Expected<Json> json = Json::parse(text)) {
      return json;
    }
  }
  return Composer(text, report).run();
}

}  // namespace kintsugi::krm
