#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "cel/internal/ast.h"
#include "cel/internal/lexer.h"
#include "cel/internal/text.h"

namespace kintsugi::cel {

namespace {

constexpr std::string_view kOperandStart =
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, "
    "BYTES, IDENTIFIER}";
constexpr std::array<std::string_view, 18> kReserved = {
    "as",  "break", "const",   "continue",  "else",   "for", "function", "if",    "import",
    "let", "loop",  "package", "namespace", "return", "var", "void",     "while", ""};

struct Level {
  std::array<std::string_view, 7> operators;
};
/// Binary operators, loosest first; && and || stand above them.
constexpr std::array<Level, 3> kLevels = {{
    {{"<", "<=", ">=", ">", "==", "!=", "in"}},
    {{"+", "-"}},
    {{"*", "/", "%"}},
}};

class Parser {
 public:
  Parser(std::string_view source, std::vector<SourceError>& errors)
      : errors_(errors), tokens_(tokenize(source, errors)) {}

  ExprPtr run() {
    ExprPtr out = expression();
    if (!failed_ && here().kind != TokenKind::kEnd) {
      fail("extraneous input '" + here().source + "' expecting <EOF>");
    }
    return failed_ || !errors_.empty() ? nullptr : out;
  }

 private:
  [[nodiscard]] const Token& here() const { return ahead(0); }
  /// The last token is the end, which nothing passes.
  [[nodiscard]] const Token& ahead(std::size_t count) const {
    return tokens_[std::min(at_ + count, tokens_.size() - 1)];
  }
  [[nodiscard]] bool at(std::string_view text) const {
    return here().kind == TokenKind::kPunct && here().text == text;
  }
  bool take(std::string_view text) {
    if (!at(text)) {
      return false;
    }
    ++at_;
    return true;
  }
  std::uint32_t position() const { return here().position; }

  void fail(const std::string& message) {
    if (!failed_) {
      errors_.push_back({position(), "Syntax error: " + message});
    }
    failed_ = true;
  }
  void expect(std::string_view text) {
    if (!failed_ && !take(text)) {
      fail((here().kind == TokenKind::kEnd ? "missing '" : "mismatched input '") +
           (here().kind == TokenKind::kEnd
                ? std::string(text) + "' at '<EOF>'"
                : here().source + "' expecting '" + std::string(text) + "'"));
    }
  }
  ExprPtr stop() const { return make_literal(Value(), position()); }
  ExprPtr limited(ExprPtr expr) {
    if (expr->depth > kMaxDepth && !failed_) {
      errors_.push_back({0, "expression recursion limit exceeded: " + std::to_string(kMaxDepth)});
      failed_ = true;
    }
    return failed_ ? stop() : expr;
  }

  ExprPtr expression() {
    if (++nesting_ > kMaxDepth && !failed_) {
      errors_.push_back({0, "expression recursion limit exceeded: " + std::to_string(kMaxDepth)});
      failed_ = true;
    }
    ExprPtr out = failed_ ? stop() : conditional();
    --nesting_;
    return out;
  }

  ExprPtr conditional() {
    ExprPtr condition = logical("||", "_||_");
    if (failed_ || !at("?")) {
      return condition;
    }
    const std::uint32_t where = position();
    ++at_;
    ExprPtr yes = logical("||", "_||_");
    expect(":");
    ExprPtr no = expression();
    return limited(
        make_call("_?_:_", {std::move(condition), std::move(yes), std::move(no)}, where));
  }

  ExprPtr logical(std::string_view sign, std::string_view function) {
    const auto operand = [&] { return sign == "||" ? logical("&&", "_&&_") : binary(0); };
    ExprPtr first = operand();
    if (failed_ || !at(sign)) {
      return first;
    }
    const std::uint32_t where = position();
    std::vector<ExprPtr> terms = {std::move(first)};
    while (!failed_ && take(sign)) {
      terms.push_back(operand());
    }
    return limited(make_call(function, std::move(terms), where));
  }

  ExprPtr binary(std::size_t level) {
    if (level == kLevels.size()) {
      return unary();
    }
    ExprPtr left = binary(level + 1);
    while (!failed_ && here().kind == TokenKind::kPunct) {
      std::string_view sign;
      for (const std::string_view each : kLevels[level].operators) {
        sign = !each.empty() && each == here().text ? each : sign;
      }
      if (sign.empty()) {
        break;
      }
      const std::uint32_t where = position();
      ++at_;
      ExprPtr right = binary(level + 1);
      const std::string function = sign == "in" ? "@in" : "_" + std::string(sign) + "_";
      left = limited(make_call(function, {std::move(left), std::move(right)}, where));
    }
    return left;
  }

  ExprPtr unary() {
    const std::string sign = at("!") ? "!" : at("-") ? "-" : "";
    if (sign.empty()) {
      return member();
    }
    const std::uint32_t where = position();
    std::size_t count = 0;
    while (at(sign)) {
      const TokenKind next = ahead(1).kind;
      if (sign == "-" && count == 0 && (next == TokenKind::kInt || next == TokenKind::kDouble)) {
        break;  // a negative literal
      }
      ++at_;
      ++count;
    }
    ExprPtr operand = member();
    if (count % 2 == 0) {
      return operand;
    }
    return limited(make_call(sign == "!" ? "!_" : "-_", {std::move(operand)}, where));
  }

  ExprPtr member() {
    ExprPtr out = primary();
    while (!failed_) {
      const std::uint32_t where = position();
      if (take(".")) {
        const bool optional = take("?");
        if (here().kind != TokenKind::kIdent && !(at("in"))) {
          fail("no viable alternative at input '." + here().source + "'");
          break;
        }
        if (at("in")) {
          fail("no viable alternative at input '.in'");
          break;
        }
        const std::string name = here().text;
        const std::uint32_t name_position = position();
        ++at_;
        if (optional) {
          out = limited(make_call(
              "_?._", {std::move(out), make_literal(Value::string(name), name_position)}, where));
        } else if (at("(")) {
          const std::uint32_t open = position();
          ++at_;
          std::vector<ExprPtr> args = arguments(")");
          if (failed_) {
            break;
          }
          ExprPtr expanded = expand_macro(name, out, args, open, errors_);
          out = limited(expanded ? std::move(expanded)
                                 : make_member_call(name, std::move(out), std::move(args), open));
        } else {
          out = limited(make_select(std::move(out), name, where));
        }
      } else if (take("[")) {
        const bool optional = take("?");
        ExprPtr index = expression();
        expect("]");
        out = limited(
            make_call(optional ? "_[?_]" : "_[_]", {std::move(out), std::move(index)}, where));
      } else if (at("{") && (out->kind == ExprKind::kIdent || out->kind == ExprKind::kSelect)) {
        out = message(*out);
      } else {
        break;
      }
    }
    return failed_ ? stop() : out;
  }

  /// name{field: value}: whether there is such a type is the checker's to know.
  ExprPtr message(const Expr& type) {
    std::string name = type.name;
    const Expr* part = &type;
    while (part->kind == ExprKind::kSelect && part->target->kind != ExprKind::kLiteral) {
      part = part->target.get();
      name = part->name + '.' + name;
    }
    const std::uint32_t where = position();
    ++at_;
    std::vector<ExprPtr> entries;
    std::vector<bool> optional;
    while (!failed_ && !at("}")) {
      optional.push_back(take("?"));
      if (here().kind != TokenKind::kIdent) {
        fail("mismatched input '" + here().source + "' expecting IDENTIFIER");
        break;
      }
      entries.push_back(make_literal(Value::string(here().source), position()));
      ++at_;
      expect(":");
      entries.push_back(expression());
      if (!take(",")) {
        break;
      }
    }
    expect("}");
    if (failed_) {
      return stop();
    }
    ExprPtr out = make_list(std::move(entries), where);
    out->kind = ExprKind::kStruct;
    out->name = std::move(name);
    out->optional_entries = std::move(optional);
    return limited(std::move(out));
  }

  std::vector<ExprPtr> arguments(std::string_view end) {
    std::vector<ExprPtr> out;
    if (take(end)) {
      return out;
    }
    do {
      out.push_back(expression());
    } while (!failed_ && take(","));
    expect(end);
    return out;
  }

  ExprPtr primary() {
    const Token token = here();
    switch (token.kind) {
      case TokenKind::kIdent:
        return identifier("");
      case TokenKind::kInt:
      case TokenKind::kUint:
      case TokenKind::kDouble:
        ++at_;
        return number(token, false, token.position);
      case TokenKind::kString:
        ++at_;
        return make_literal(Value::string(token.text), token.position);
      case TokenKind::kBytes:
        ++at_;
        return make_literal(Value::bytes(token.text), token.position);
      case TokenKind::kPunct:
        break;
      case TokenKind::kEnd:
        fail("mismatched input '<EOF>' expecting " + std::string(kOperandStart));
        return stop();
    }
    ++at_;
    if (token.text == "-") {
      const Token digits = here();
      if (digits.kind != TokenKind::kInt && digits.kind != TokenKind::kDouble) {
        fail("no viable alternative at input '-" + digits.source + "'");
        return stop();
      }
      ++at_;
      return number(digits, true, token.position);
    }
    if (token.text == "true" || token.text == "false") {
      return make_literal(Value::boolean(token.text == "true"), token.position);
    }
    if (token.text == "null") {
      return make_literal(Value(), token.position);
    }
    if (token.text == "(") {
      ExprPtr inner = expression();
      expect(")");
      return inner;
    }
    if (token.text == "[") {
      return list(token.position);
    }
    if (token.text == "{") {
      return map(token.position);
    }
    if (token.text == "." && here().kind == TokenKind::kIdent) {
      return identifier(".");
    }
    --at_;
    fail("mismatched input '" + token.source + "' expecting " + std::string(kOperandStart));
    return stop();
  }

  ExprPtr identifier(std::string_view lead) {
    const Token token = here();
    ++at_;
    for (const std::string_view each : kReserved) {
      if (each == token.text) {
        errors_.push_back({token.position, "reserved identifier: " + token.text});
      }
    }
    if (!at("(")) {
      return make_ident(std::string(lead) + token.text, token.position);
    }
    const std::uint32_t open = position();
    ++at_;
    std::vector<ExprPtr> args = arguments(")");
    if (failed_) {
      return stop();
    }
    ExprPtr expanded = expand_macro(token.text, nullptr, args, open, errors_);
    return limited(expanded ? std::move(expanded) : make_call(token.text, std::move(args), open));
  }

  ExprPtr number(const Token& token, bool negative, std::uint32_t where) {
    const auto refuse = [&](std::string_view what) {
      errors_.push_back({token.position, "invalid " + std::string(what) + " literal"});
      return make_literal(Value(), where);
    };
    if (token.kind == TokenKind::kDouble) {
      double value = 0;
      const auto end =
          std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      if (end.ec == std::errc::result_out_of_range) {
        return refuse("double");
      }
      return make_literal(Value::real(negative ? -value : value), where);
    }
    const bool hex = token.text.starts_with("0x");
    const char* begin = token.text.data() + (hex ? 2 : 0);
    std::uint64_t value = 0;
    const auto end =
        std::from_chars(begin, token.text.data() + token.text.size(), value, hex ? 16 : 10);
    constexpr std::uint64_t kHalf = std::uint64_t{1} << 63U;
    const bool wide = end.ec != std::errc();
    if (token.kind == TokenKind::kUint) {
      return wide ? refuse("uint") : make_literal(Value::unsigned_integer(value), where);
    }
    if (wide || value > kHalf || (value == kHalf && !negative)) {
      return refuse("int");
    }
    return make_literal(
        Value::integer(static_cast<std::int64_t>(negative ? std::uint64_t{0} - value : value)),
        where);
  }

  ExprPtr list(std::uint32_t where) {
    std::vector<ExprPtr> items;
    std::vector<bool> optional;
    while (!failed_ && !at("]")) {
      optional.push_back(take("?"));
      items.push_back(expression());
      if (!take(",")) {
        break;
      }
    }
    expect("]");
    ExprPtr out = make_list(std::move(items), where);
    out->optional_entries = std::move(optional);
    return limited(std::move(out));
  }

  ExprPtr map(std::uint32_t where) {
    std::vector<ExprPtr> parts;
    std::vector<bool> optional;
    while (!failed_ && !at("}")) {
      optional.push_back(take("?"));
      parts.push_back(expression());
      expect(":");
      parts.push_back(failed_ ? stop() : expression());
      if (!take(",")) {
        break;
      }
    }
    expect("}");
    ExprPtr out = make_list(std::move(parts), where);
    out->kind = ExprKind::kMap;
    out->optional_entries = std::move(optional);
    return limited(std::move(out));
  }

  std::vector<SourceError>& errors_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::uint32_t nesting_ = 0;
  bool failed_ = false;
};

}  // namespace

ExprPtr parse(std::string_view source, std::vector<SourceError>& errors) {
  if (const std::size_t count = rune_count(source); count > kMaxSource) {
    errors.push_back({0, "expression code point size exceeds limit: size: " +
                             std::to_string(count) + ", limit " + std::to_string(kMaxSource)});
    return nullptr;
  }
  return Parser(source, errors).run();
}

}  // namespace kintsugi::cel
