#include "krm/json_path.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "krm/go_value.h"

namespace kintsugi::krm {
namespace {

constexpr std::size_t kMaxSteps = 64;
constexpr std::size_t kMaxResults = 10'000;
constexpr int kMaxFilterDepth = 8;

bool is_space(char c) { return c == ' ' || c == '\t'; }

std::string_view strip(std::string_view text) {
  while (!text.empty() && is_space(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_space(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

/// Every container in `value` and itself, in document order.
void descend(const Json& value, std::vector<const Json*>& out) {
  if (out.size() >= kMaxResults) {
    return;
  }
  if (value.is_object() || value.is_array()) {
    out.push_back(&value);
  }
  for (const Json& item : value.items()) {
    descend(item, out);
  }
  for (const JsonMember& member : value.members()) {
    descend(member.value, out);
  }
}

}  // namespace

class JsonPathParser {
 public:
  JsonPathParser(std::string_view text, int depth) : text_(text), depth_(depth) {}

  Expected<JsonPath> run() {
    text_ = strip(text_);
    if (text_.size() >= 2 && text_.front() == '{' && text_.back() == '}') {
      text_ = strip(text_.substr(1, text_.size() - 2));
    }
    if (!text_.empty() && (text_.front() == '$' || text_.front() == '@')) {
      ++at_;
    }
    bool ok = true;
    while (ok && at_ < text_.size()) {
      ok = out_.steps_.size() < kMaxSteps && step();
    }
    if (!ok) {
      return fail(Errc::kInvalid, "invalid JSONPath \"" + std::string(text_) +
                                      "\": " + (fault_.empty() ? "too long" : fault_));
    }
    return std::move(out_);
  }

 private:
  bool complain(std::string_view what) {
    fault_ = what;
    return false;
  }
  [[nodiscard]] bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  void add(JsonPath::Step made) { out_.steps_.push_back(std::move(made)); }

  bool step() {
    if (next_is('[')) {
      return bracket();
    }
    if (next_is('.')) {
      ++at_;
      if (next_is('.')) {
        ++at_;
        JsonPath::Step all;
        all.kind = JsonPath::Kind::kDescend;
        add(std::move(all));
      }
      if (at_ == text_.size()) {
        return out_.steps_.empty() || complain("unexpected end of path");
      }
      if (next_is('[')) {
        return bracket();
      }
    }
    return name();
  }

  bool name() {
    JsonPath::Step made;
    bool escaped = false;
    for (; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '\\') {
        if (++at_ == text_.size()) {
          return complain("unexpected end of path");
        }
        c = text_[at_];
        escaped = true;
      } else if (c == '.' || c == '[') {
        break;
      } else if (is_space(c) || c == ']' || c == '{' || c == '}' || c == '\'' || c == '"' ||
                 c == '(' || c == ')' || c == '|' || c == ',') {
        return complain("unexpected character in a name");
      }
      made.name.push_back(c);
    }
    if (made.name.empty()) {
      return complain("empty name");
    }
    if (made.name == "*" && !escaped) {
      made.kind = JsonPath::Kind::kAll;
    }
    add(std::move(made));
    return true;
  }

  /// The text up to the bracket that closes this one; quotes hide brackets.
  bool bracket() {
    std::size_t end = ++at_;
    char quote = 0;
    int open = 1;
    for (; end < text_.size(); ++end) {
      const char c = text_[end];
      if (quote != 0) {
        if (c == '\\') {
          ++end;
        } else if (c == quote) {
          quote = 0;
        }
      } else if (c == '\'' || c == '"') {
        quote = c;
      } else if (c == '[') {
        ++open;
      } else if (c == ']' && --open == 0) {
        break;
      }
    }
    if (end >= text_.size()) {
      return complain("unterminated bracket");
    }
    const std::string_view inside = strip(text_.substr(at_, end - at_));
    at_ = end + 1;
    JsonPath::Step made;
    if (inside == "*") {
      made.kind = JsonPath::Kind::kSlice;
    } else if (!inside.empty() && (inside.front() == '\'' || inside.front() == '"')) {
      if (!unquote(inside, made.name)) {
        return complain("malformed quoted name");
      }
    } else if (inside.size() >= 4 && inside.substr(0, 2) == "?(" && inside.back() == ')') {
      made.kind = JsonPath::Kind::kFilter;
      if (!filter(inside.substr(2, inside.size() - 3), made)) {
        return false;
      }
    } else if (!numbers(inside, made)) {
      return complain("malformed index");
    }
    add(std::move(made));
    return true;
  }

  static bool unquote(std::string_view text, std::string& out) {
    const char quote = text.front();
    std::size_t i = 1;
    for (; i < text.size() && text[i] != quote; ++i) {
      if (text[i] == '\\' && i + 1 < text.size()) {
        ++i;
      }
      out.push_back(text[i]);
    }
    return i + 1 == text.size();
  }

  static bool integer(std::string_view text, std::int64_t& out) {
    const auto result = std::from_chars(text.data(), text.data() + text.size(), out);
    return result.ec == std::errc() && result.ptr == text.data() + text.size();
  }

  static bool numbers(std::string_view text, JsonPath::Step& out) {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) {
      out.kind = JsonPath::Kind::kIndex;
      return integer(text, out.begin);
    }
    out.kind = JsonPath::Kind::kSlice;
    const std::string_view first = strip(text.substr(0, colon));
    std::string_view rest = text.substr(colon + 1);
    const std::size_t second = rest.find(':');
    const std::string_view stride =
        second == std::string_view::npos ? std::string_view() : strip(rest.substr(second + 1));
    rest = strip(rest.substr(0, second));
    out.open_begin = first.empty();
    out.open_end = rest.empty();
    return (first.empty() || integer(first, out.begin)) &&
           (rest.empty() || integer(rest, out.end)) &&
           (stride.empty() || (integer(stride, out.stride) && out.stride > 0));
  }

  bool filter(std::string_view text, JsonPath::Step& out) {
    if (depth_ >= kMaxFilterDepth) {
      return complain("filters are nested too deeply");
    }
    using Compare = JsonPath::Compare;
    auto made = std::make_shared<JsonPath::Filter>();
    static constexpr std::pair<std::string_view, Compare> kOperators[] = {
        {"==", Compare::kEqual},     {"!=", Compare::kNotEqual}, {"<=", Compare::kLessEqual},
        {">=", Compare::kMoreEqual}, {"<", Compare::kLess},      {">", Compare::kMore}};
    char quote = 0;
    std::size_t length = 0;
    std::size_t i = 0;
    for (; i < text.size() && length == 0; ++i) {
      if (quote != 0) {
        quote = text[i] == quote ? '\0' : quote;
      } else if (text[i] == '\'' || text[i] == '"') {
        quote = text[i];
      } else {
        for (const auto& [sign, compare] : kOperators) {
          if (text.substr(i, sign.size()) == sign) {
            made->compare = compare;
            length = sign.size();
            break;
          }
        }
      }
    }
    const std::size_t sign_at = length == 0 ? text.size() : i - 1;
    if (!operand(strip(text.substr(0, sign_at)), made->left) ||
        (length != 0 && !operand(strip(text.substr(sign_at + length)), made->right))) {
      return fault_.empty() ? complain("malformed filter") : false;
    }
    out.filter = std::move(made);
    return true;
  }

  bool operand(std::string_view text, JsonPath::Operand& out) {
    if (text.empty()) {
      return false;
    }
    if (text.front() == '@' || text.front() == '$' || text.front() == '.') {
      Expected<JsonPath> path = JsonPathParser(text, depth_ + 1).run();
      if (!path) {
        return complain(path.error().message());
      }
      out.path = std::make_shared<const JsonPath>(std::move(*path));
      return true;
    }
    if (text.front() == '\'' || text.front() == '"') {
      std::string literal;
      const bool ok = unquote(text, literal);
      out.literal = std::move(literal);
      return ok;
    }
    Expected<Json> literal = Json::parse(text);
    if (!literal || literal->is_object() || literal->is_array()) {
      return false;
    }
    out.literal = std::move(*literal);
    return true;
  }

  std::string_view text_;
  const int depth_;
  std::size_t at_ = 0;
  JsonPath out_;
  std::string fault_;
};

Expected<JsonPath> JsonPath::compile(std::string_view text) {
  return JsonPathParser(text, 0).run();
}

std::optional<bool> JsonPath::holds(const Filter& filter, const Json& value) {
  struct Side {
    const Json* value = nullptr;
    bool fails = false;
  };
  const auto side = [&](const Operand& operand) -> Side {
    if (operand.path == nullptr) {
      return {&operand.literal, false};
    }
    const std::optional<std::vector<const Json*>> found = operand.path->walk(value);
    if (!found || found->size() > 1) {
      return {nullptr, true};
    }
    return {found->empty() ? nullptr : found->front(), false};
  };
  if (filter.compare == Compare::kExists) {
    return filter.left.path == nullptr || !filter.left.path->find(value).empty();
  }
  const Side left = side(filter.left);
  if (left.fails || left.value == nullptr) {
    return left.fails ? std::nullopt : std::optional(false);
  }
  const Side right = side(filter.right);
  if (right.fails || right.value == nullptr) {
    return right.fails ? std::nullopt : std::optional(false);
  }
  const Json& a = *left.value;
  const Json& b = *right.value;
  const bool numbers = a.is_number() && b.is_number() && a.is_integer() == b.is_integer();
  const bool texts = a.is_string() && b.is_string();
  if (filter.compare == Compare::kEqual || filter.compare == Compare::kNotEqual) {
    if (!numbers && !texts && !(a.is_bool() && b.is_bool())) {
      return std::nullopt;
    }
    return (a == b) == (filter.compare == Compare::kEqual);
  }
  if (!numbers && !texts) {
    return std::nullopt;
  }
  int order = 0;
  if (texts) {
    order = a.as_string().compare(b.as_string());
  } else if (a.is_integer()) {
    order = a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer() ? 1 : 0;
  } else {
    order = a.as_double() < b.as_double() ? -1 : a.as_double() > b.as_double() ? 1 : 0;
  }
  switch (filter.compare) {
    case Compare::kLess:
      return order < 0;
    case Compare::kLessEqual:
      return order <= 0;
    case Compare::kMore:
      return order > 0;
    default:
      return order >= 0;
  }
}

JsonPath::Outcome JsonPath::filter(const Step& step, const Json& value,
                                   std::vector<const Json*>& out) {
  if (!value.is_array()) {
    return Outcome::kFailed;
  }
  for (const Json& item : value.items()) {
    const std::optional<bool> found = holds(*step.filter, item);
    if (!found) {
      return Outcome::kFailed;
    }
    if (*found && out.size() < kMaxResults) {
      out.push_back(&item);
    }
  }
  return Outcome::kGoOn;
}

JsonPath::Outcome JsonPath::apply(const Step& step, const Json& value,
                                  std::vector<const Json*>& out) {
  const auto count = static_cast<std::int64_t>(value.items().size());
  const auto add = [&](const Json& found) {
    if (out.size() < kMaxResults) {
      out.push_back(&found);
    }
  };
  switch (step.kind) {
    case Kind::kMember:
      if (const Json* found = value.find(step.name)) {
        add(*found);
      }
      break;
    case Kind::kIndex: {
      const std::int64_t index = step.begin + (step.begin < 0 ? count : 0);
      if (value.is_array() && index >= 0 && index < count) {
        add(value.items()[static_cast<std::size_t>(index)]);
        break;
      }
      return value.is_null() ? Outcome::kGoOn : Outcome::kFailed;
    }
    case Kind::kSlice: {
      if (!value.is_array()) {
        return value.is_null() ? Outcome::kGoOn : Outcome::kFailed;
      }
      const std::int64_t begin = step.open_begin ? 0 : step.begin + (step.begin < 0 ? count : 0);
      const std::int64_t end = step.open_end ? count : step.end + (step.end < 0 ? count : 0);
      if (begin == end) {
        return Outcome::kStop;
      }
      if (begin < 0 || begin >= count || end > count || begin > end) {
        return Outcome::kFailed;
      }
      // Steps past the end, without overflow.
      for (std::int64_t i = begin; i < end; i += std::min(step.stride, count)) {
        add(value.items()[static_cast<std::size_t>(i)]);
      }
      break;
    }
    case Kind::kAll:
      for (const Json& item : value.items()) {
        add(item);
      }
      for (const JsonMember& member : value.members()) {
        add(member.value);
      }
      break;
    case Kind::kFilter:
      return filter(step, value, out);
    case Kind::kDescend:
      descend(value, out);
      break;
  }
  return Outcome::kGoOn;
}

std::optional<std::vector<const Json*>> JsonPath::walk(const Json& document) const {
  std::vector<const Json*> current = {&document};
  std::vector<const Json*> next;
  for (const Step& step : steps_) {
    next.clear();
    for (const Json* value : current) {
      const Outcome outcome = apply(step, *value, next);
      if (outcome == Outcome::kFailed) {
        return std::nullopt;
      }
      if (outcome == Outcome::kStop) {
        break;
      }
    }
    current.swap(next);
  }
  return current;
}

std::vector<const Json*> JsonPath::find(const Json& document) const {
  return walk(document).value_or(std::vector<const Json*>());
}

const Json* JsonPath::first(const Json& document) const {
  const Json* value = &document;
  for (const Step& step : steps_) {
    if (step.kind != Kind::kMember) {
      const std::vector<const Json*> all = find(document);
      return all.empty() ? nullptr : all.front();
    }
    value = value->find(step.name);
    if (value == nullptr) {
      return nullptr;
    }
  }
  return value;
}

std::optional<std::vector<std::string>> JsonPath::plain_names() const {
  std::vector<std::string> names;
  for (const Step& step : steps_) {
    if (step.kind != Kind::kMember) {
      return std::nullopt;
    }
    names.push_back(step.name);
  }
  return names;
}

Json column_cell(const Json* value, std::string_view type) {
  if (value == nullptr || value->is_null()) {
    return value != nullptr && type == "string" ? Json("<no value>") : Json();
  }
  if (type == "integer") {
    if (value->is_number() && !value->is_integer()) {
      const double real = value->as_double();
      const bool fits = real >= -9223372036854775808.0 && real < 9223372036854775808.0;
      return Json(fits ? static_cast<std::int64_t>(real)
                       : std::numeric_limits<std::int64_t>::min());  // as it comes out in Go
    }
    return value->is_integer() ? *value : Json();
  }
  if (type == "number") {
    return value->is_number() ? *value : Json();
  }
  if (type == "boolean") {
    return value->is_bool() ? *value : Json();
  }
  if (value->is_string()) {
    return *value;
  }
  if (type != "string") {
    return {};
  }
  const bool real = value->is_number() && !value->is_integer();
  return Json(real ? go_value_text(Json(value->as_double())) : value->dump());
}

}  // namespace kintsugi::krm
