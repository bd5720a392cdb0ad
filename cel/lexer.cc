#include "cel/internal/lexer.h"

#include <array>
#include <optional>
#include <utility>

#include "cel/internal/text.h"

namespace kintsugi::cel {

namespace {

constexpr std::array<std::string_view, 8> kLongOperators = {
    "==", "!=", "<=", ">=", "&&", "||", "", ""};
constexpr std::string_view kShortOperators = "<>!-+*/%?:.,()[]{}";

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
int hex_value(char32_t c) {
  return is_digit(c)            ? static_cast<int>(c - '0')
         : c >= 'a' && c <= 'f' ? static_cast<int>(c - 'a') + 10
         : c >= 'A' && c <= 'F' ? static_cast<int>(c - 'A') + 10
                                : -1;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::vector<SourceError>& errors)
      : text_(runes(source)), errors_(errors) {}

  std::vector<Token> run() {
    std::vector<Token> out;
    while (true) {
      skip_blanks();
      const std::size_t begin = at_;
      if (at_ >= text_.size()) {
        Token end;
        end.position = static_cast<std::uint32_t>(at_);
        end.source = "<EOF>";
        out.push_back(std::move(end));
        return out;
      }
      Token token;
      token.position = static_cast<std::uint32_t>(begin);
      if (!next(token)) {
        std::string bad = to_utf8(text_, begin, at_);
        errors_.push_back({static_cast<std::uint32_t>(begin),
                           "Syntax error: token recognition error at: '" + bad + "'"});
        continue;
      }
      token.source = to_utf8(text_, begin, at_);
      out.push_back(std::move(token));
    }
  }

 private:
  [[nodiscard]] char32_t peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0;
  }

  void skip_blanks() {
    while (at_ < text_.size()) {
      const char32_t c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f') {
        ++at_;
      } else if (c == '/' && peek(1) == '/') {
        while (at_ < text_.size() && text_[at_] != '\n') {
          ++at_;
        }
      } else {
        return;
      }
    }
  }

  bool next(Token& token) {
    const char32_t c = peek();
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      return number(token);
    }
    if (c == '"' || c == '\'') {
      return quoted(token, false, false);
    }
    if (is_letter(c)) {
      std::size_t prefix = 0;
      bool raw = false;
      bool bytes = false;
      while (prefix < 2) {
        const char32_t p = peek(prefix);
        if ((p == 'r' || p == 'R') && !raw) {
          raw = true;
        } else if ((p == 'b' || p == 'B') && !bytes) {
          bytes = true;
        } else {
          break;
        }
        ++prefix;
      }
      if (prefix > 0 && (peek(prefix) == '"' || peek(prefix) == '\'')) {
        const std::size_t back = at_;
        at_ += prefix;
        if (quoted(token, raw, bytes)) {
          return true;
        }
        at_ = back + 1;
        return false;
      }
      while (is_letter(peek()) || is_digit(peek())) {
        append_rune(token.text, text_[at_++]);
      }
      token.kind = token.text == "true" || token.text == "false" || token.text == "null" ||
                           token.text == "in"
                       ? TokenKind::kPunct
                       : TokenKind::kIdent;
      return true;
    }
    token.kind = TokenKind::kPunct;
    for (const std::string_view each : kLongOperators) {
      if (!each.empty() && c == static_cast<char32_t>(each[0]) &&
          peek(1) == static_cast<char32_t>(each[1])) {
        token.text = each;
        at_ += 2;
        return true;
      }
    }
    ++at_;
    if (c < 0x80 && kShortOperators.find(static_cast<char>(c)) != std::string_view::npos) {
      token.text = static_cast<char>(c);
      return true;
    }
    return false;
  }

  bool number(Token& token) {
    token.kind = TokenKind::kInt;
    if (peek() == '0' && (peek(1) == 'x' || peek(1) == 'X') && hex_value(peek(2)) >= 0) {
      token.text = "0x";
      at_ += 2;
      while (hex_value(peek()) >= 0) {
        append_rune(token.text, text_[at_++]);
      }
    } else {
      const auto digits = [&] {
        while (is_digit(peek())) {
          append_rune(token.text, text_[at_++]);
        }
      };
      digits();
      if (peek() == '.' && is_digit(peek(1))) {
        token.kind = TokenKind::kDouble;
        append_rune(token.text, text_[at_++]);
        digits();
      }
      const std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 2 : 1;
      if ((peek() == 'e' || peek() == 'E') && is_digit(peek(sign))) {
        token.kind = TokenKind::kDouble;
        for (std::size_t i = 0; i < sign; ++i) {
          append_rune(token.text, text_[at_++]);
        }
        digits();
      }
    }
    if (token.kind == TokenKind::kInt && (peek() == 'u' || peek() == 'U')) {
      token.kind = TokenKind::kUint;
      ++at_;
    }
    return true;
  }

  bool quoted(Token& token, bool raw, bool bytes) {
    const std::size_t begin = at_;
    const char32_t quote = peek();
    const bool triple = peek(1) == quote && peek(2) == quote;
    at_ += triple ? 3 : 1;
    token.kind = bytes ? TokenKind::kBytes : TokenKind::kString;
    while (at_ < text_.size()) {
      const char32_t c = text_[at_];
      if (c == quote && (!triple || (peek(1) == quote && peek(2) == quote))) {
        at_ += triple ? 3 : 1;
        return true;
      }
      if (!triple && (c == '\n' || c == '\r')) {
        break;
      }
      ++at_;
      if (c == '\r') {  // line ends are \n
        if (peek() == '\n') {
          ++at_;
        }
        token.text += '\n';
      } else if (c != '\\' || raw) {
        append_rune(token.text, c);
        if (c == '\\' && peek() == quote && !triple) {
          return fail_at(begin);
        }
      } else if (!escape(token.text, bytes)) {
        break;
      }
    }
    return fail_at(begin);
  }

  bool fail_at(std::size_t begin) {
    at_ = begin + 1;
    return false;
  }

  bool escape(std::string& out, bool bytes) {
    const char32_t c = peek();
    ++at_;
    static constexpr std::string_view kFrom = "abfnrtv\\\"'`?";
    static constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\\"'`?";
    if (c < 0x80 && c != 0) {
      if (const std::size_t place = kFrom.find(static_cast<char>(c));
          place != std::string_view::npos) {
        out += kTo[place];
        return true;
      }
    }
    int digits = 0;
    std::uint32_t base = 16;
    if (c == 'x' || c == 'X') {
      digits = 2;
    } else if (c == 'u') {
      digits = 4;
    } else if (c == 'U') {
      digits = 8;
    } else if (c >= '0' && c <= '3') {
      digits = 3;
      base = 8;
      --at_;
    } else {
      return false;
    }
    if (bytes && (c == 'u' || c == 'U')) {
      return false;
    }
    std::uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = hex_value(peek());
      if (digit < 0 || static_cast<std::uint32_t>(digit) >= base) {
        return false;
      }
      value = value * base + static_cast<std::uint32_t>(digit);
      ++at_;
    }
    if (bytes) {
      out += static_cast<char>(static_cast<unsigned char>(value));
      return true;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      return false;
    }
    append_rune(out, value);
    return true;
  }

  std::vector<char32_t> text_;
  std::size_t at_ = 0;
  std::vector<SourceError>& errors_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, std::vector<SourceError>& errors) {
  return Lexer(source, errors).run();
}

}  // namespace kintsugi::cel
