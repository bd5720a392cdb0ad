#include "aggregation/bytes/json_split.h"

#include <algorithm>
#include <charconv>

#include "krm/annotations.h"
#include "krm/json.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kMaxEnvelope = 1U << 20;

bool is_space(char c) noexcept { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

std::string_view text_of(std::string_view raw) noexcept {
  return plain_string(raw).value_or(std::string_view());
}

std::uint64_t revision_of(std::string_view raw) noexcept {
  const std::string_view digits = text_of(raw);
  std::uint64_t value = 0;
  const auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return code == std::errc() && stop == digits.data() + digits.size() ? value : 0;
}

void read_annotations(std::string_view raw, ObjectFacts& out) {
  out.annotations = raw;
  MemberWalk walk(raw);
  while (const auto member = walk.next()) {
    if (key_is(member->key, krm::kClusterAnnotation)) {
      out.cluster = text_of(member->value);
    } else if (key_is(member->key, krm::kInitialEventsEndAnnotation)) {
      out.initial_end = text_of(member->value) == "true";
    }
  }
}

bool read_metadata(std::string_view raw, ObjectFacts& out) {
  out.metadata = raw;
  MemberWalk walk(raw);
  while (const auto member = walk.next()) {
    if (key_is(member->key, "resourceVersion")) {
      out.revision = revision_of(member->value);
    } else if (key_is(member->key, "name")) {
      out.name = text_of(member->value);
    } else if (key_is(member->key, "namespace")) {
      out.ns = text_of(member->value);
    } else if (key_is(member->key, "uid")) {
      out.uid = text_of(member->value);
    } else if (key_is(member->key, "annotations") && member->value.front() == '{') {
      read_annotations(member->value, out);
    }
  }
  return !walk.broken();
}

/// First element of a raw array; "" when it has none.
std::string_view first_element(std::string_view raw) {
  std::size_t at = 1;
  while (at < raw.size() && is_space(raw[at])) {
    ++at;
  }
  if (at >= raw.size() || raw[at] != '{') {
    return {};
  }
  const std::size_t end = value_end(raw, at);
  return end == std::string_view::npos ? std::string_view() : raw.substr(at, end - at);
}

/// A Table stands for the object of its first row.
void read_row(std::string_view rows, EventFacts& out) {
  if (const auto facts = row_facts(first_element(rows))) {
    const std::string_view kind = out.facts.kind;
    const std::string_view api_version = out.facts.api_version;
    out.facts = *facts;
    out.facts.kind = kind;
    out.facts.api_version = api_version;
  }
}

}  // namespace

EventType event_type(std::string_view text) noexcept {
  static constexpr std::pair<std::string_view, EventType> kTypes[] = {
      {"ADDED", EventType::kAdded},     {"MODIFIED", EventType::kModified},
      {"DELETED", EventType::kDeleted}, {"BOOKMARK", EventType::kBookmark},
      {"ERROR", EventType::kError},
  };
  for (const auto& [name, type] : kTypes) {
    if (name == text) {
      return type;
    }
  }
  return EventType::kUnknown;
}

EventSplitter::Fault EventSplitter::feed(std::string_view bytes,
                                         const std::function<void(std::string_view)>& take) {
  while (!bytes.empty()) {
    if (partial_.empty()) {
      while (!bytes.empty() && is_space(bytes.front())) {
        bytes.remove_prefix(1);
      }
      if (bytes.empty()) {
        return Fault::kNone;
      }
      if (bytes.front() != '{') {
        return Fault::kMalformed;
      }
      scan_.reset();
    }
    const std::size_t used = scan_.feed(bytes);
    const std::string_view part = bytes.substr(0, used);
    if (partial_.size() + used > max_bytes_) {
      partial_ += part;
      return Fault::kTooLarge;
    }
    bytes.remove_prefix(used);
    if (!scan_.done()) {
      partial_ += part;
    } else if (partial_.empty()) {
      take(part);
    } else {
      partial_ += part;
      take(partial_);
      partial_.clear();
    }
  }
  return Fault::kNone;
}

std::optional<ObjectFacts> object_facts(std::string_view object) {
  ObjectFacts out;
  bool good = false;
  MemberWalk walk(object);
  while (const auto member = walk.next()) {
    if (key_is(member->key, "metadata")) {
      good = read_metadata(member->value, out);
    } else if (key_is(member->key, "kind")) {
      out.kind = text_of(member->value);
    } else if (key_is(member->key, "apiVersion")) {
      out.api_version = text_of(member->value);
    }
    if (good && !out.kind.empty() && !out.api_version.empty()) {
      return out;  // typed objects have these three first
    }
  }
  return good && !walk.broken() ? std::optional(out) : std::nullopt;
}

std::optional<ObjectFacts> row_facts(std::string_view row) {
  std::optional<ObjectFacts> out;
  MemberWalk walk(row);
  while (const auto member = walk.next()) {
    if (key_is(member->key, "object")) {
      out = object_facts(member->value);
    }
  }
  return walk.broken() ? std::nullopt : out;
}

std::optional<EventFacts> event_facts(std::string_view event) {
  EventFacts out;
  MemberWalk walk(event);
  while (const auto member = walk.next()) {
    if (key_is(member->key, "type")) {
      out.type = event_type(text_of(member->value));
    } else if (key_is(member->key, "object")) {
      out.object = member->value;
    }
  }
  if (walk.broken() || out.type == EventType::kUnknown || out.object.empty() ||
      out.object.front() != '{') {
    return std::nullopt;
  }
  if (out.type == EventType::kError) {
    return out;
  }
  const std::optional<ObjectFacts> facts = object_facts(out.object);
  if (!facts) {
    return std::nullopt;
  }
  out.facts = *facts;
  if (facts->kind == "Table") {
    MemberWalk table(out.object);
    while (const auto member = table.next()) {
      if (key_is(member->key, "columnDefinitions") &&
          member->value.find('{') != std::string_view::npos) {
        out.columns = member->value;
      } else if (key_is(member->key, "rows") && member->value.front() == '[') {
        read_row(member->value, out);
      }
    }
  }
  return out;
}

bool ListSplitter::finish_member() {
  if (key_is(key_, "kind")) {
    envelope_.kind = text_of(value_);
  } else if (key_is(key_, "apiVersion")) {
    envelope_.api_version = text_of(value_);
  } else if (key_is(key_, "columnDefinitions")) {
    envelope_.columns = value_ == "null" ? std::string() : value_;
  } else if (key_is(key_, "metadata") && value_.front() == '{') {
    MemberWalk walk(value_);
    while (const auto member = walk.next()) {
      if (key_is(member->key, "resourceVersion")) {
        envelope_.resource_version = string_value(member->value).value_or("");
      } else if (key_is(member->key, "continue")) {
        envelope_.continue_token = string_value(member->value).value_or("");
      } else if (key_is(member->key, "remainingItemCount")) {
        std::int64_t count = 0;
        const std::string_view digits = member->value;
        if (std::from_chars(digits.data(), digits.data() + digits.size(), count).ec ==
            std::errc()) {
          envelope_.remaining = count;
        }
      } else if (key_is(member->key, "shardInfo")) {
        envelope_.shard_info = member->value;
      }
    }
    if (walk.broken()) {
      return false;
    }
  }
  key_.clear();
  value_.clear();
  state_ = State::kCommaOrEnd;
  return true;
}

void ListSplitter::begin(State state, char first) {
  value_.clear();
  scan_.reset();
  escaped_ = false;
  state_ = state;
  if (state == State::kInString) {
    value_ += first;
  }
}

ListSplitter::Fault ListSplitter::feed(std::string_view bytes,
                                       const std::function<void(std::string_view)>& take) {
  std::size_t at = 0;
  const auto is_list_key = [this] { return key_is(key_, "items") || key_is(key_, "rows"); };
  while (at < bytes.size()) {
    const char c = bytes[at];
    const bool inside = state_ == State::kInKey || state_ == State::kInString ||
                        state_ == State::kInScalar || state_ == State::kInContainer ||
                        state_ == State::kInItem;
    if (!inside && is_space(c)) {
      ++at;
      continue;
    }
    switch (state_) {
      case State::kStart:
        if (c != '{') {
          return Fault::kMalformed;
        }
        state_ = State::kKeyOrEnd;
        ++at;
        break;
      case State::kKeyOrEnd:
        if (c == '}') {
          state_ = State::kEnd;
          ++at;
          break;
        }
        [[fallthrough]];
      case State::kKey:
        if (c != '"') {
          return Fault::kMalformed;
        }
        key_.clear();
        escaped_ = false;
        state_ = State::kInKey;
        ++at;
        break;
      case State::kInKey:
        ++at;
        if (c == '"' && !escaped_) {
          state_ = State::kColon;
          break;
        }
        escaped_ = c == '\\' && !escaped_;
        key_ += c;
        if (key_.size() > kMaxEnvelope) {
          return Fault::kTooLarge;
        }
        break;
      case State::kColon:
        if (c != ':') {
          return Fault::kMalformed;
        }
        state_ = State::kValue;
        ++at;
        break;
      case State::kValue:
        if (c == '[' && is_list_key()) {
          state_ = State::kItemOrEnd;
          items_begun_ = true;
          ++at;
        } else if (c == '{' || c == '[') {
          begin(State::kInContainer, c);
        } else if (c == '"') {
          begin(State::kInString, c);
          ++at;
        } else {
          begin(State::kInScalar, c);
        }
        break;
      case State::kInContainer: {
        const std::size_t used = scan_.feed(bytes.substr(at));
        value_ += bytes.substr(at, used);
        at += used;
        if (value_.size() > kMaxEnvelope) {
          return Fault::kTooLarge;
        }
        if (scan_.done() && !finish_member()) {
          return Fault::kMalformed;
        }
        break;
      }
      case State::kInString:
        ++at;
        value_ += c;
        if (value_.size() > kMaxEnvelope) {
          return Fault::kTooLarge;
        }
        if (c == '"' && !escaped_) {
          if (!finish_member()) {
            return Fault::kMalformed;
          }
          break;
        }
        escaped_ = c == '\\' && !escaped_;
        break;
      case State::kInScalar:
        if (c == ',' || c == '}' || is_space(c)) {
          if (value_.empty() || !finish_member()) {
            return Fault::kMalformed;
          }
          break;
        }
        value_ += c;
        if (value_.size() > kMaxEnvelope) {
          return Fault::kTooLarge;
        }
        ++at;
        break;
      case State::kCommaOrEnd:
        if (c != ',' && c != '}') {
          return Fault::kMalformed;
        }
        state_ = c == ',' ? State::kKey : State::kEnd;
        ++at;
        break;
      case State::kItemOrEnd:
        if (c == ']') {
          key_.clear();
          state_ = State::kCommaOrEnd;
          ++at;
          break;
        }
        [[fallthrough]];
      case State::kItem:
        if (c != '{') {
          return Fault::kMalformed;
        }
        begin(State::kInItem, c);
        break;
      case State::kInItem: {
        const std::string_view rest = bytes.substr(at);
        const std::size_t used = scan_.feed(rest);
        if (value_.size() + used > max_item_) {
          return Fault::kTooLarge;
        }
        at += used;
        if (!scan_.done()) {
          value_ += rest;
          break;
        }
        if (value_.empty()) {
          take(rest.substr(0, used));
        } else {
          value_ += rest.substr(0, used);
          take(value_);
          value_.clear();
        }
        state_ = State::kItemCommaOrEnd;
        break;
      }
      case State::kItemCommaOrEnd:
        if (c == ',') {
          state_ = State::kItem;
        } else if (c == ']') {
          key_.clear();
          state_ = State::kCommaOrEnd;
        } else {
          return Fault::kMalformed;
        }
        ++at;
        break;
      case State::kEnd:
        return Fault::kMalformed;
    }
  }
  return Fault::kNone;
}

}  // namespace kintsugi::aggregation
