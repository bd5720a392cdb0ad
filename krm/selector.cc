#include "krm/selector.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <tuple>

#include "krm/go_text.h"
#include "krm/names.h"
#include "krm/status.h"

namespace kintsugi::krm {
namespace {

constexpr std::string_view kSpecial = "=!(),><";
constexpr std::string_view kSpace = " \t\r\n";

std::optional<std::int64_t> to_integer(std::string_view text) {
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') {
    text.remove_prefix(1);
  }
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::string join_messages(const Messages& messages) {
  std::string out;
  for (const std::string& message : messages) {
    out.append(out.empty() ? "" : "; ").append(message);
  }
  return out;
}

std::string field_text(std::string_view field, const Json& value, std::string_view detail) {
  return std::string(field) + ": " + field_invalid("", value, detail).message;
}

Json to_json(const std::vector<std::string>& values) {
  Json out = Json::array();
  for (const std::string& value : values) {
    out.push_back(value);
  }
  return out;
}

/// What is wrong with the number of values, "" when nothing is.
std::string_view count_fault(const Requirement& requirement) {
  const std::size_t count = requirement.values.size();
  switch (requirement.op) {
    case SelectorOp::kIn:
    case SelectorOp::kNotIn:
      return count == 0 ? "for 'in', 'notin' operators, values set can't be empty" : "";
    case SelectorOp::kEquals:
    case SelectorOp::kDoubleEquals:
    case SelectorOp::kNotEquals:
      return count != 1 ? "exact-match compatibility requires one single value" : "";
    case SelectorOp::kExists:
    case SelectorOp::kDoesNotExist:
      return count != 0 ? "values set must be empty for exists and does not exist" : "";
    case SelectorOp::kGreater:
    case SelectorOp::kLess:
      return count != 1 ? "for 'Gt', 'Lt' operators, exactly one value is required" : "";
  }
  return "";
}

/// labels.NewRequirement's complaints; "" for a valid one.
std::string fault_of(const Requirement& requirement) {
  std::vector<std::string> faults;
  if (const Messages key = check_qualified_name(requirement.key); !key.empty()) {
    faults.push_back(field_text("key", requirement.key, join_messages(key)));
  }
  if (const std::string_view count = count_fault(requirement); !count.empty()) {
    faults.push_back(field_text("values", to_json(requirement.values), count));
  }
  const bool numeric =
      requirement.op == SelectorOp::kGreater || requirement.op == SelectorOp::kLess;
  for (std::size_t i = 0; i < requirement.values.size(); ++i) {
    const std::string& value = requirement.values[i];
    const std::string at = "values[" + std::to_string(i) + "]";
    if (numeric && !to_integer(value)) {
      faults.push_back(
          field_text(at, value, "for 'Gt', 'Lt' operators, the value must be an integer"));
    }
  }
  for (std::size_t i = 0; i < requirement.values.size(); ++i) {
    const std::string& value = requirement.values[i];
    if (const Messages messages = check_label_value(value); !messages.empty()) {
      faults.push_back(field_text("values[" + std::to_string(i) + "][" + requirement.key + "]",
                                  value, join_messages(messages)));
    }
  }
  if (faults.empty()) {
    return {};
  }
  if (faults.size() == 1) {
    return faults.front();
  }
  std::string out = "[";
  for (std::size_t i = 0; i < faults.size(); ++i) {
    out.append(i == 0 ? "" : ", ").append(faults[i]);
  }
  return out + "]";
}

void normalise(std::vector<std::string>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

enum class Token : std::uint8_t { kEnd, kError, kIdentifier, kIn, kNotIn, kSymbol };

/// The grammar of labels.Parse, token by token, with its error texts.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) { advance(); }

  /// @returns the error text, "" on success.
  std::string run(std::vector<Requirement>& out) {
    while (token_ != Token::kEnd) {
      if (!starts_requirement()) {
        return "found '" + literal_ + "', expected: !, identifier, or 'end of string'";
      }
      Requirement requirement;
      if (std::string fault = read_requirement(requirement); !fault.empty()) {
        return "unable to parse requirement: " + fault;
      }
      out.push_back(std::move(requirement));
      if (token_ == Token::kEnd) {
        break;
      }
      if (!is_symbol(",")) {
        return "found '" + literal_ + "', expected: ',' or 'end of string'";
      }
      advance();
      if (!starts_requirement()) {
        return "found '" + literal_ + "', expected: identifier after ','";
      }
    }
    return {};
  }

 private:
  void advance() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kSpace), rest_.size()));
    if (rest_.empty()) {
      token_ = Token::kEnd;
      literal_.clear();
      return;
    }
    if (kSpecial.find(rest_.front()) == std::string_view::npos) {
      const std::size_t end =
          std::min(rest_.find_first_of(std::string(kSpecial) + std::string(kSpace)), rest_.size());
      literal_ = rest_.substr(0, end);
      rest_.remove_prefix(end);
      token_ = literal_ == "in"      ? Token::kIn
               : literal_ == "notin" ? Token::kNotIn
                                     : Token::kIdentifier;
      return;
    }
    const std::string_view two = rest_.substr(0, 2);
    const std::size_t length = two == "==" || two == "!=" ? 2 : 1;
    literal_ = rest_.substr(0, length);
    rest_.remove_prefix(length);
    token_ = Token::kSymbol;
  }
  [[nodiscard]] bool is_symbol(std::string_view text) const {
    return token_ == Token::kSymbol && literal_ == text;
  }
  /// `in` and `notin` are words where a key or a value stands.
  [[nodiscard]] bool is_word() const {
    return token_ == Token::kIdentifier || token_ == Token::kIn || token_ == Token::kNotIn;
  }
  [[nodiscard]] bool starts_requirement() const { return is_word() || is_symbol("!"); }
  std::string take() {
    std::string taken = std::move(literal_);
    advance();
    return taken;
  }

  std::string read_requirement(Requirement& out) {
    const bool negated = is_symbol("!");
    if (negated) {
      advance();
    }
    if (!is_word()) {
      return "found '" + literal_ + "', expected: identifier";
    }
    out.key = take();
    if (const Messages messages = check_qualified_name(out.key); !messages.empty()) {
      return field_text("<nil>", out.key, join_messages(messages));
    }
    if (negated) {
      out.op = SelectorOp::kDoesNotExist;
      return {};
    }
    if (token_ == Token::kEnd || is_symbol(",")) {
      out.op = SelectorOp::kExists;
      return {};
    }
    if (!read_operator(out.op)) {
      return "found '" + literal_ + "', expected: in, notin, =, ==, !=, gt, lt";
    }
    std::string fault = out.op == SelectorOp::kIn || out.op == SelectorOp::kNotIn
                            ? read_set(out.values)
                            : read_value(out.values);
    normalise(out.values);
    return fault.empty() ? fault_of(out) : fault;
  }

  bool read_operator(SelectorOp& op) {
    if (token_ == Token::kIn || token_ == Token::kNotIn) {
      op = token_ == Token::kIn ? SelectorOp::kIn : SelectorOp::kNotIn;
    } else if (is_symbol("=")) {
      op = SelectorOp::kEquals;
    } else if (is_symbol("==")) {
      op = SelectorOp::kDoubleEquals;
    } else if (is_symbol("!=")) {
      op = SelectorOp::kNotEquals;
    } else if (is_symbol(">")) {
      op = SelectorOp::kGreater;
    } else if (is_symbol("<")) {
      op = SelectorOp::kLess;
    } else {
      return false;
    }
    advance();
    return true;
  }

  std::string read_value(std::vector<std::string>& values) {
    if (token_ == Token::kEnd || is_symbol(",")) {
      values.emplace_back();
      return {};
    }
    if (!is_word()) {
      return "found '" + literal_ + "', expected: identifier";
    }
    values.push_back(take());
    return {};
  }

  std::string read_set(std::vector<std::string>& values) {
    if (!is_symbol("(")) {
      return "found '" + literal_ + "' expected: '('";
    }
    advance();
    if (is_symbol(")")) {
      advance();
      values.emplace_back();
      return {};
    }
    if (!is_word() && !is_symbol(",")) {
      return "found '" + literal_ + "', expected: ',', ')' or identifier";
    }
    for (;;) {
      if (is_word()) {
        values.push_back(take());
        if (!is_symbol(",") && !is_symbol(")")) {
          return "found '" + literal_ + "', expected: ',' or ')'";
        }
      } else if (is_symbol(",")) {
        if (values.empty()) {
          values.emplace_back();
        }
        advance();
        if (is_symbol(",") || is_symbol(")")) {
          values.emplace_back();
        }
      } else {
        return "found '" + literal_ + "', expected: ',', or identifier";
      }
      if (is_symbol(")")) {
        advance();
        return {};
      }
    }
  }

  std::string_view rest_;
  Token token_ = Token::kEnd;
  std::string literal_;
};

std::string_view op_text(SelectorOp op) {
  switch (op) {
    case SelectorOp::kEquals:
      return "=";
    case SelectorOp::kDoubleEquals:
      return "==";
    case SelectorOp::kNotEquals:
      return "!=";
    case SelectorOp::kIn:
      return " in ";
    case SelectorOp::kNotIn:
      return " notin ";
    case SelectorOp::kGreater:
      return ">";
    case SelectorOp::kLess:
      return "<";
    default:
      return "";
  }
}

std::optional<SelectorOp> expression_op(std::string_view text) {
  if (text == "In") {
    return SelectorOp::kIn;
  }
  if (text == "NotIn") {
    return SelectorOp::kNotIn;
  }
  if (text == "Exists") {
    return SelectorOp::kExists;
  }
  if (text == "DoesNotExist") {
    return SelectorOp::kDoesNotExist;
  }
  return std::nullopt;
}

/// Value of one term of a field selector; the error text in `fault`.
std::string unescape(std::string_view text, std::string& fault) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ',' || c == '=') {
      fault = "invalid field selector: unescaped character in value: " +
              std::to_string(static_cast<int>(c));
      return {};
    }
    if (c != '\\') {
      out.push_back(c);
      continue;
    }
    ++i;
    if (i == text.size() || (text[i] != '\\' && text[i] != ',' && text[i] != '=')) {
      fault =
          "invalid field selector: invalid escape sequence: " + std::string(text.substr(i - 1, 2));
      return {};
    }
    out.push_back(text[i]);
  }
  return out;
}

}  // namespace

bool Requirement::matches(std::optional<std::string_view> value) const noexcept {
  switch (op) {
    case SelectorOp::kDoesNotExist:
      return !value;
    case SelectorOp::kExists:
      return value.has_value();
    case SelectorOp::kEquals:
    case SelectorOp::kDoubleEquals:
    case SelectorOp::kIn:
      return value && std::binary_search(values.begin(), values.end(), *value);
    case SelectorOp::kNotEquals:
    case SelectorOp::kNotIn:
      return !value || !std::binary_search(values.begin(), values.end(), *value);
    case SelectorOp::kGreater:
    case SelectorOp::kLess: {
      if (!value || values.empty()) {
        return false;
      }
      const std::optional<std::int64_t> left = to_integer(*value);
      const std::optional<std::int64_t> right = to_integer(values.front());
      if (!left || !right) {
        return false;
      }
      return op == SelectorOp::kGreater ? *left > *right : *left < *right;
    }
  }
  return false;
}

Selector::Selector(std::vector<Requirement> requirements) : requirements_(std::move(requirements)) {
  // As Kubernetes: by key alone, those of one key stay in the order in which they were given.
  std::stable_sort(requirements_.begin(), requirements_.end(),
                   [](const Requirement& a, const Requirement& b) { return a.key < b.key; });
}

Expected<Selector> Selector::parse(std::string_view text) {
  std::vector<Requirement> requirements;
  std::string fault = Parser(text).run(requirements);
  if (!fault.empty()) {
    return fail(Errc::kBadRequest, std::move(fault));
  }
  return Selector(std::move(requirements));
}

Expected<Selector> Selector::parse_asked(std::string_view text) {
  if (text.size() > kMostAskedBytes) {
    return fail(Errc::kBadRequest,
                "the label selector is longer than " + std::to_string(kMostAskedBytes) + " bytes");
  }
  Expected<Selector> asked = parse(text);
  if (asked && asked->requirements_.size() > kMostAskedTerms) {
    return fail(Errc::kBadRequest,
                "the label selector has more than " + std::to_string(kMostAskedTerms) + " terms");
  }
  return asked;
}

Expected<Selector> Selector::from_json(const Json& selector) {
  std::vector<Requirement> requirements;
  if (const Json* labels = selector.find("matchLabels")) {
    for (const JsonMember& label : labels->members()) {
      requirements.push_back(
          {label.key, SelectorOp::kEquals, {std::string(label.value.as_string())}});
    }
  }
  if (const Json* expressions = selector.find("matchExpressions")) {
    for (const Json& expression : expressions->items()) {
      const std::string_view op = expression.text({"operator"});
      const std::optional<SelectorOp> known = expression_op(op);
      if (!known) {
        return fail(Errc::kInvalid, go_quote(op) + " is not a valid label selector operator");
      }
      Requirement requirement{std::string(expression.text({"key"})), *known, {}};
      if (const Json* values = expression.find("values")) {
        for (const Json& value : values->items()) {
          requirement.values.emplace_back(value.as_string());
        }
      }
      requirements.push_back(std::move(requirement));
    }
  }
  for (Requirement& requirement : requirements) {
    if (std::string fault = fault_of(requirement); !fault.empty()) {
      return fail(Errc::kInvalid, std::move(fault));
    }
    normalise(requirement.values);
  }
  return Selector(std::move(requirements));
}

bool Selector::matches(const Json& labels) const noexcept {
  return std::all_of(requirements_.begin(), requirements_.end(), [&](const Requirement& each) {
    const Json* value = labels.find(each.key);
    return each.matches(value == nullptr ? std::nullopt : std::optional(value->as_string()));
  });
}

std::string Selector::to_string() const {
  std::string out;
  for (const Requirement& each : requirements_) {
    out.append(out.empty() ? "" : ",");
    if (each.op == SelectorOp::kDoesNotExist) {
      out.push_back('!');
    }
    out.append(each.key).append(op_text(each.op));
    const bool set = each.op == SelectorOp::kIn || each.op == SelectorOp::kNotIn;
    out.append(set ? "(" : "");
    for (std::size_t i = 0; i < each.values.size(); ++i) {
      out.append(i == 0 ? "" : ",").append(each.values[i]);
    }
    out.append(set ? ")" : "");
  }
  return out;
}

Expected<FieldSelector> FieldSelector::parse(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || text[i] == ',') {
      parts.push_back(text.substr(start, i - start));
      start = i + 1;
    } else if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
    }
  }
  std::sort(parts.begin(), parts.end());
  FieldSelector out;
  for (const std::string_view part : parts) {
    if (part.empty()) {
      continue;
    }
    std::size_t at = part.find('=');
    if (at == std::string_view::npos) {
      std::string message = "invalid selector: '" + std::string(text) + "'; can't understand '";
      return fail(Errc::kBadRequest, message.append(part).append("'"));
    }
    const bool not_equal = at > 0 && part[at - 1] == '!';
    const std::string_view field = part.substr(0, not_equal ? at - 1 : at);
    at += !not_equal && part.substr(at, 2) == "==" ? 2 : 1;
    std::string fault;
    std::string value = unescape(part.substr(at), fault);
    if (!fault.empty()) {
      return fail(Errc::kBadRequest, std::move(fault));
    }
    if (!field.empty() || !value.empty()) {  // Kubernetes drops a bare operator
      out.terms_.push_back({std::string(field), not_equal, std::move(value)});
    }
  }
  return out;
}

std::optional<std::string_view> FieldSelector::exact(std::string_view field) const noexcept {
  for (const Term& term : terms_) {
    if (term.field == field && !term.not_equal) {
      return term.value;
    }
  }
  return std::nullopt;
}

}  // namespace kintsugi::krm
