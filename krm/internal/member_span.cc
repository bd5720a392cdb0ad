#include "krm/internal/member_span.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "krm/internal/plain_bytes.h"

namespace kintsugi::krm {
namespace {

constexpr unsigned kMostOpen = 64;

/// What stops a walk over values.
constexpr auto kStops = [] {
  std::array<bool, 256> table{};
  for (const char c : {'"', '{', '}', '[', ']'}) {
    table[static_cast<unsigned char>(c)] = true;
  }
  return table;
}();

/// Walks over a JSON text. Every step is false where it does not find what it should.
class Walk {
 public:
  explicit Walk(std::string_view text) noexcept : text_(text) {}

  [[nodiscard]] std::size_t at() const noexcept { return at_; }
  [[nodiscard]] char next() noexcept {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  [[nodiscard]] bool take(char wanted) noexcept {
    const bool there = next() == wanted;
    at_ += there ? 1 : 0;
    return there;
  }
  /// A string, without its quotes.
  [[nodiscard]] bool string(std::string_view& out) noexcept {
    if (!take('"')) {
      return false;
    }
    const std::size_t first = at_;
    if (!close_string()) {
      return false;
    }
    out = text_.substr(first, at_ - first - 1);
    return true;
  }
  /// A value.
  [[nodiscard]] bool value() noexcept {
    switch (next()) {
      case '"': {
        std::string_view ignored;
        return string(ignored);
      }
      case '{':
      case '[':
        return container();
      default:
        return scalar();
    }
  }

 private:
  /// From inside a string to behind its quote.
  [[nodiscard]] bool close_string() noexcept {
    while (true) {
      at_ = end_of_plain(text_, at_);
      if (at_ >= text_.size() || (text_[at_] != '"' && text_[at_] != '\\')) {
        return false;
      }
      if (text_[at_++] == '"') {
        return true;
      }
      at_ = std::min(at_ + 1, text_.size());  // what is escaped
    }
  }
  [[nodiscard]] bool scalar() noexcept {
    const std::size_t first = at_;
    while (at_ < text_.size() &&
           std::string_view(",]}\" \t\r\n").find(text_[at_]) == std::string_view::npos) {
      ++at_;
    }
    return at_ > first;
  }
  [[nodiscard]] bool container() noexcept {
    std::uint64_t objects = 0;  // a bit for each that is open, the innermost lowest
    unsigned open = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (!kStops[static_cast<unsigned char>(c)]) {
        continue;
      }
      if (c == '"') {
        if (!close_string()) {
          return false;
        }
        continue;
      }
      if (c == '{' || c == '[') {
        if (open == kMostOpen) {
          return false;
        }
        ++open;
        objects = objects << 1U | (c == '{' ? 1U : 0U);
        continue;
      }
      if ((c == '}') != ((objects & 1U) != 0)) {
        return false;
      }
      objects >>= 1U;
      if (--open == 0) {
        return true;
      }
    }
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<MemberSpan> find_member(std::string_view text,
                                      std::span<const std::string_view> path) noexcept {
  Walk walk(text);
  std::size_t depth = 0;
  while (depth < path.size() && walk.take('{')) {
    std::size_t comma = 0;  // before the member; 0: it is the first
    while (true) {
      const char before = walk.next();
      std::size_t begin = walk.at();
      std::string_view key;
      if (before != '"' || !walk.string(key) || !walk.take(':')) {
        return std::nullopt;
      }
      const bool named = key == path[depth];
      if (named && depth + 1 < path.size()) {
        break;
      }
      if (!walk.value()) {
        return std::nullopt;
      }
      std::size_t end = walk.at();
      const char after = walk.next();
      if (named && (after == ',' || after == '}')) {
        if (comma != 0) {
          begin = comma;
        } else if (after == ',') {
          end = walk.at() + 1;
        }
        return MemberSpan{begin, end};
      }
      comma = walk.at();
      if (!walk.take(',')) {
        return std::nullopt;
      }
    }
    ++depth;
    (void)walk.next();
  }
  return std::nullopt;
}

}  // namespace kintsugi::krm
