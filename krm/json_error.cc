#include <cstdint>
#include <vector>

#include "krm/go_text.h"
#include "krm/internal/json_text.h"

namespace kintsugi::krm {
namespace {

constexpr char kEnd[] = "unexpected end of JSON input";
constexpr std::size_t kMaxDepth = 10'000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

/// Walks a text by the states of Go's scanner and keeps the first complaint.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::string run() {
    if (value()) {
      skip_space();
      if (at_ < text_.size()) {
        complain("after top-level value");
      }
    }
    return std::move(error_);
  }

 private:
  bool complain(std::string_view context) {
    if (!error_.empty()) {
      return false;
    }
    if (at_ >= text_.size()) {
      error_ = kEnd;
    } else {
      error_ = "invalid character " + go_quote_byte(text_[at_]) + " ";
      error_.append(context);
    }
    return false;
  }
  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) {
      ++at_;
    }
  }
  [[nodiscard]] bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }

  bool value() {
    for (;;) {
      if (!begin_value()) {
        return false;
      }
      if (opened_) {
        continue;
      }
      for (;;) {
        if (open_.empty()) {
          return true;
        }
        skip_space();
        const bool object = open_.back();
        if (next_is(',')) {
          ++at_;
          if (object && !key()) {
            return false;
          }
          break;
        }
        if (!next_is(object ? '}' : ']')) {
          return complain(object ? "after object key:value pair" : "after array element");
        }
        ++at_;
        open_.pop_back();
      }
    }
  }

  /// One scalar, one empty container, or the beginning of a container (then opened_ is set).
  bool begin_value() {
    opened_ = false;
    skip_space();
    if (at_ >= text_.size()) {
      return complain("");
    }
    const char c = text_[at_];
    if (c == '{' || c == '[') {
      ++at_;
      skip_space();
      if (open_.size() >= kMaxDepth) {
        error_ = "exceeded max depth";
        return false;
      }
      if (next_is(c == '{' ? '}' : ']')) {
        ++at_;
        return true;
      }
      open_.push_back(c == '{');
      opened_ = true;
      return c == '[' || key();
    }
    if (c == '"') {
      return string();
    }
    if (c == '-' || is_digit(c)) {
      return number();
    }
    if (c == 't') {
      return literal("true");
    }
    if (c == 'f') {
      return literal("false");
    }
    if (c == 'n') {
      return literal("null");
    }
    return complain("looking for beginning of value");
  }

  bool key() {
    skip_space();
    if (!next_is('"')) {
      return complain("looking for beginning of object key string");
    }
    if (!string()) {
      return false;
    }
    skip_space();
    if (!next_is(':')) {
      return complain("after object key");
    }
    ++at_;
    return true;
  }

  bool string() {
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        return complain("in string literal");
      }
      if (c == '\\' && !escape()) {
        return false;
      }
    }
    return complain("");
  }

  bool escape() {
    ++at_;
    if (at_ >= text_.size()) {
      return complain("");
    }
    if (text_[at_] != 'u') {
      return std::string_view("bfnrt\\/\"").find(text_[at_]) != std::string_view::npos ||
             complain("in string escape code");
    }
    for (int i = 0; i < 4; ++i) {
      ++at_;
      if (at_ >= text_.size() || !is_hex(text_[at_])) {
        return complain("in \\u hexadecimal character escape");
      }
    }
    return true;
  }

  bool digits(std::string_view context) {
    if (at_ >= text_.size() || !is_digit(text_[at_])) {
      return complain(context);
    }
    while (at_ < text_.size() && is_digit(text_[at_])) {
      ++at_;
    }
    return true;
  }

  bool number() {
    if (next_is('-')) {
      ++at_;
    }
    if (next_is('0')) {
      ++at_;
    } else if (!digits("in numeric literal")) {
      return false;
    }
    if (next_is('.')) {
      ++at_;
      if (!digits("after decimal point in numeric literal")) {
        return false;
      }
    }
    if (next_is('e') || next_is('E')) {
      ++at_;
      if (next_is('+') || next_is('-')) {
        ++at_;
      }
      return digits("in exponent of numeric literal");
    }
    return true;
  }

  bool literal(std::string_view word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      ++at_;
      if (at_ >= text_.size() || text_[at_] != word[i]) {
        return complain("in literal " + std::string(word) + " (expecting '" + word[i] + "')");
      }
    }
    ++at_;
    return true;
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  bool opened_ = false;
  std::vector<bool> open_;  // true: object
  std::string error_;
};

}  // namespace

std::string describe_json_error(std::string_view text) { return Scanner(text).run(); }

}  // namespace kintsugi::krm
