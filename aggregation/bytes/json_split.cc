#include "aggregation/bytes/json_split.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "krm/annotations.h"
#include "krm/json.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kBlock = 64;

/// One bit per byte of a block.
struct StringMasks {
  std::uint64_t quote = 0, backslash = 0;
};
struct BraceMasks {
  std::uint64_t open = 0, close = 0;
};

#if defined(__SSE2__)

std::uint64_t equal_mask(const __m128i (&parts)[4], __m128i wanted) noexcept {
  std::uint64_t mask = 0;
  for (int i = 0; i < 4; ++i) {
    const auto bits =
        static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(parts[i], wanted)));
    mask |= static_cast<std::uint64_t>(bits) << (16 * i);
  }
  return mask;
}

StringMasks string_masks(const char* block) noexcept {
  __m128i parts[4];
  for (int i = 0; i < 4; ++i) {
    parts[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block) + i);
  }
  return {equal_mask(parts, _mm_set1_epi8('"')), equal_mask(parts, _mm_set1_epi8('\\'))};
}

BraceMasks brace_masks(const char* block) noexcept {
  __m128i folded[4];  // '[' and '{', ']' and '}' differ in one bit
  for (int i = 0; i < 4; ++i) {
    folded[i] = _mm_or_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block) + i),
                             _mm_set1_epi8(0x20));
  }
  return {equal_mask(folded, _mm_set1_epi8('{')), equal_mask(folded, _mm_set1_epi8('}'))};
}

#else

StringMasks string_masks(const char* block) noexcept {
  StringMasks out;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    out.quote |= block[i] == '"' ? bit : 0;
    out.backslash |= block[i] == '\\' ? bit : 0;
  }
  return out;
}

BraceMasks brace_masks(const char* block) noexcept {
  BraceMasks out;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    out.open |= block[i] == '{' || block[i] == '[' ? bit : 0;
    out.close |= block[i] == '}' || block[i] == ']' ? bit : 0;
  }
  return out;
}

#endif

/// Bytes that follow an odd backslash. @param escaped  carried from block to block.
std::uint64_t escaped_mask(std::uint64_t backslash, bool& escaped, std::size_t size) noexcept {
  if (backslash == 0) {
    const std::uint64_t mask = escaped ? 1 : 0;
    escaped = false;
    return mask;
  }
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    if (escaped) {
      mask |= bit;
      escaped = false;
    } else {
      escaped = (backslash & bit) != 0;
    }
  }
  return mask;
}

/// Each bit: the parity of all bits up to it.
std::uint64_t running_parity(std::uint64_t bits) noexcept {
  for (const int shift : {1, 2, 4, 8, 16, 32}) {
    bits ^= bits << shift;
  }
  return bits;
}

bool is_space(char c) noexcept { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// Behind the closing quote; npos: there is none.
std::size_t string_end(std::string_view text, std::size_t begin) noexcept {
  for (std::size_t at = begin + 1; at < text.size(); ++at) {
    const auto* found =
        static_cast<const char*>(std::memchr(text.data() + at, '"', text.size() - at));
    if (found == nullptr) {
      return std::string_view::npos;
    }
    const auto quote = static_cast<std::size_t>(found - text.data());
    std::size_t slashes = 0;
    while (slashes < quote - begin - 1 && text[quote - 1 - slashes] == '\\') {
      ++slashes;
    }
    if (slashes % 2 == 0) {
      return quote + 1;
    }
    at = quote;
  }
  return std::string_view::npos;
}

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

std::size_t ValueScan::feed(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t size = std::min(kBlock, text.size() - at);
    char padded[kBlock];
    const char* block = text.data() + at;
    if (size < kBlock) {
      std::memset(padded, ' ', sizeof padded);
      std::memcpy(padded, block, size);
      block = padded;
    }
    const StringMasks marks = string_masks(block);
    if (in_string_ && (marks.quote | marks.backslash) == 0) {
      escaped_ = false;
      at += size;
      continue;
    }
    const std::uint64_t quotes = marks.quote & ~escaped_mask(marks.backslash, escaped_, size);
    std::uint64_t strings = running_parity(quotes);
    if (in_string_) {
      strings = ~strings;
    }
    in_string_ = (strings >> (size - 1) & 1) != 0;
    const BraceMasks braces = brace_masks(block);
    const std::uint64_t open = braces.open & ~strings;
    const std::uint64_t close = braces.close & ~strings;
    if ((open | close) == 0) {  // most blocks: counting bits is a call without -mpopcnt
      at += size;
      continue;
    }
    begun_ = begun_ || open != 0;
    if (depth_ > static_cast<std::uint64_t>(std::popcount(close))) {
      depth_ += static_cast<std::uint64_t>(std::popcount(open));
      depth_ -= static_cast<std::uint64_t>(std::popcount(close));
      at += size;
      continue;
    }
    for (std::uint64_t both = open | close; both != 0; both &= both - 1) {
      const std::uint64_t bit = both & (~both + 1);
      if ((open & bit) != 0) {
        ++depth_;
      } else if (depth_ <= 1) {
        depth_ = 0;
        return at + static_cast<std::size_t>(std::countr_zero(bit)) + 1;
      } else {
        --depth_;
      }
    }
    at += size;
  }
  return text.size();
}

std::size_t value_end(std::string_view text, std::size_t begin) noexcept {
  if (begin >= text.size()) {
    return std::string_view::npos;
  }
  const char first = text[begin];
  if (first == '"') {
    return string_end(text, begin);
  }
  if (first == '{' || first == '[') {
    ValueScan scan;
    const std::size_t size = scan.feed(text.substr(begin));
    return scan.done() ? begin + size : std::string_view::npos;
  }
  std::size_t end = begin;
  while (end < text.size() && text[end] != ',' && text[end] != '}' && text[end] != ']' &&
         !is_space(text[end])) {
    ++end;
  }
  return end == begin ? std::string_view::npos : end;
}

MemberWalk::MemberWalk(std::string_view object) noexcept : text_(object) {
  if (text_.size() < 2 || text_.front() != '{' || text_.back() != '}') {
    broken_ = true;
    at_ = text_.size();
    return;
  }
  at_ = 1;
}

void MemberWalk::skip_space() noexcept {
  while (at_ < text_.size() && is_space(text_[at_])) {
    ++at_;
  }
}

std::optional<MemberWalk::Member> MemberWalk::stop(bool broken) noexcept {
  broken_ = broken_ || broken;
  at_ = text_.size();
  return std::nullopt;
}

std::optional<MemberWalk::Member> MemberWalk::next() noexcept {
  if (at_ >= text_.size()) {
    return std::nullopt;
  }
  skip_space();
  if (at_ + 1 == text_.size()) {
    return stop(text_[at_] != '}');
  }
  if (!first_) {
    if (text_[at_] != ',') {
      return stop(true);
    }
    ++at_;
    skip_space();
  }
  first_ = false;
  if (at_ >= text_.size() || text_[at_] != '"') {
    return stop(true);
  }
  const std::size_t key_end = string_end(text_, at_);
  if (key_end == std::string_view::npos) {
    return stop(true);
  }
  const std::string_view key = text_.substr(at_ + 1, key_end - at_ - 2);
  at_ = key_end;
  skip_space();
  if (at_ >= text_.size() || text_[at_] != ':') {
    return stop(true);
  }
  ++at_;
  skip_space();
  const std::size_t end = value_end(text_, at_);
  if (end == std::string_view::npos || end >= text_.size()) {
    return stop(true);
  }
  const std::string_view value = text_.substr(at_, end - at_);
  at_ = end;
  return Member{key, value};
}

bool key_is(std::string_view raw_key, std::string_view name) {
  if (raw_key.find('\\') == std::string_view::npos) {
    return raw_key == name;
  }
  const std::optional<std::string> key = string_value('"' + std::string(raw_key) + '"');
  return key && *key == name;
}

std::optional<std::string_view> plain_string(std::string_view raw) noexcept {
  if (raw.size() < 2 || raw.front() != '"' || raw.find('\\') != std::string_view::npos) {
    return std::nullopt;
  }
  return raw.substr(1, raw.size() - 2);
}

std::optional<std::string> string_value(std::string_view raw) {
  if (const std::optional<std::string_view> plain = plain_string(raw)) {
    return std::string(*plain);
  }
  if (raw.empty() || raw.front() != '"') {
    return std::nullopt;
  }
  const Expected<krm::Json> parsed = krm::Json::parse(raw);
  return parsed && parsed->is_string() ? std::optional(std::string(parsed->as_string()))
                                       : std::nullopt;
}

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

std::string kept_members(std::string_view metadata) {
  std::string out;
  for (MemberWalk walk(metadata); const auto member = walk.next();) {
    if (member->key == "labels" || member->key == "ownerReferences") {
      out += ",\"";
      out += member->key;
      out += "\":";
      out += member->value;
    }
  }
  return out;
}

}  // namespace kintsugi::aggregation
