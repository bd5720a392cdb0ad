#include "krm/go_value.h"

#include <array>
#include <charconv>

#include "base/strings.h"

namespace kintsugi::krm {
namespace {

/// strconv.FormatFloat(value, 'g', -1, 64).
std::string float_text(double value) {
  constexpr int kLargest = 6;
  std::array<char, 400> buffer{};
  char* const begin = buffer.data();
  char* end = std::to_chars(begin, begin + buffer.size(), value, std::chars_format::scientific).ptr;
  const std::string_view text(begin, static_cast<std::size_t>(end - begin));
  const std::size_t mark = text.find('e');
  std::string_view digits = mark == std::string_view::npos ? "0" : text.substr(mark + 1);
  if (digits.front() == '+') {
    digits.remove_prefix(1);
  }
  int exponent = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  if (exponent < -4 || exponent >= kLargest) {
    return std::string(text);
  }
  end = std::to_chars(begin, begin + buffer.size(), value, std::chars_format::fixed).ptr;
  return {begin, end};
}

void append(std::string& out, const Json& value, char verb) {
  switch (value.type()) {
    case Json::Type::kString:
      out += value.as_string();
      return;
    case Json::Type::kArray: {
      out.push_back('[');
      std::string_view gap;
      for (const Json& item : value.items()) {
        out += gap;
        append(out, item, verb);
        gap = " ";
      }
      out.push_back(']');
      return;
    }
    case Json::Type::kObject: {
      out += "map[";
      std::string_view gap;
      for (const JsonMember& member : value.members()) {
        out.append(gap).append(member.key).push_back(':');
        append(out, member.value, verb);
        gap = " ";
      }
      out.push_back(']');
      return;
    }
    default:
      break;
  }
  const std::string text = value.is_null()      ? "<nil>"
                           : value.is_bool()    ? (value.as_bool() ? "true" : "false")
                           : value.is_integer() ? std::to_string(value.as_integer())
                                                : float_text(value.as_double());
  if (verb != 's' || value.is_null()) {
    out += text;
  } else {
    out.append("%!s(").append(go_type_text(value)).append("=").append(text).push_back(')');
  }
}

}  // namespace

std::string go_value_text(const Json& value, char verb) {
  if (verb == 's' && value.is_null()) {
    return "%!s(<nil>)";  // only outside of lists and maps
  }
  std::string out;
  append(out, value, verb);
  return out;
}

std::string go_json_text(const Json& value) {
  std::string out;
  for (const char c : value.dump()) {
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

std::string_view go_json_type(const Json& value) noexcept {
  return value.is_bool() ? "bool" : value.is_number() ? "number" : value.type_name();
}

std::string_view go_type_text(const Json& value) noexcept {
  switch (value.type()) {
    case Json::Type::kNull:
      return "%!s(<nil>)";
    case Json::Type::kBool:
      return "bool";
    case Json::Type::kInteger:
      return "int64";
    case Json::Type::kString:
      return "string";
    case Json::Type::kArray:
      return "[]interface {}";
    case Json::Type::kObject:
      return "map[string]interface {}";
    default:
      return "float64";
  }
}

}  // namespace kintsugi::krm
