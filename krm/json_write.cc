#include <charconv>
#include <cmath>

#include "base/hex.h"
#include "krm/internal/json_text.h"
#include "krm/internal/plain_bytes.h"
#include "krm/json.h"

namespace kintsugi::krm {
namespace {

void append_escape(std::string& out, unsigned char c) {
  out.push_back('\\');
  switch (c) {
    case '"':
    case '\\':
      out.push_back(static_cast<char>(c));
      break;
    case '\b':
      out.push_back('b');
      break;
    case '\f':
      out.push_back('f');
      break;
    case '\n':
      out.push_back('n');
      break;
    case '\r':
      out.push_back('r');
      break;
    case '\t':
      out.push_back('t');
      break;
    default:
      out.append("u00");
      append_hex(out, c);
  }
}

void append_integer(std::string& out, std::int64_t value) {
  char buffer[24];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, static_cast<std::size_t>(result.ptr - buffer));
}

void append_scalar(std::string& out, const Json& value) {
  switch (value.type()) {
    case Json::Type::kBool:
      out.append(value.as_bool() ? "true" : "false");
      break;
    case Json::Type::kInteger:
      append_integer(out, value.as_integer());
      break;
    case Json::Type::kDouble:
      append_json_double(out, value.as_double());
      break;
    case Json::Type::kString:
      append_json_string(out, value.as_string());
      break;
    default:
      out.append("null");
  }
}

void break_line(std::string& out, int indent) {
  out.push_back('\n');
  out.append(static_cast<std::size_t>(indent) * 2, ' ');
}

void append_pretty(std::string& out, const Json& value, int indent) {
  if (value.size() == 0) {
    value.dump_to(out);
    return;
  }
  bool first = true;
  if (value.is_array()) {
    out.push_back('[');
    for (const Json& item : value.items()) {
      if (!first) {
        out.push_back(',');
      }
      first = false;
      break_line(out, indent + 1);
      append_pretty(out, item, indent + 1);
    }
    break_line(out, indent);
    out.push_back(']');
    return;
  }
  out.push_back('{');
  for (const JsonMember& member : value.members()) {
    if (!first) {
      out.push_back(',');
    }
    first = false;
    break_line(out, indent + 1);
    append_json_string(out, member.key);
    out.append(": ");
    append_pretty(out, member.value, indent + 1);
  }
  break_line(out, indent);
  out.push_back('}');
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t end = end_of_plain(text, at);
    out.append(text, at, end - at);
    at = end;
    if (at < text.size()) {
      append_escape(out, static_cast<unsigned char>(text[at]));
    }
  }
  out.push_back('"');
}

void append_json_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out.append("null");
    return;
  }
  char buffer[32];
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<std::size_t>(result.ptr - buffer));
  if (text.front() == '-') {
    out.push_back('-');
    text.remove_prefix(1);
  }
  const std::size_t e = text.find('e');
  std::string digits(1, text.front());
  if (e > 2) {
    digits.append(text, 2, e - 2);
  }
  int exponent = 0;
  const bool negative = text[e + 1] == '-';
  std::from_chars(text.data() + e + 2, text.data() + text.size(), exponent);
  exponent = negative ? -exponent : exponent;

  const auto count = static_cast<int>(digits.size());
  if (value != 0 && (exponent < -6 || exponent >= 21)) {
    out.push_back(digits.front());
    if (count > 1) {
      out.push_back('.');
      out.append(digits, 1);
    }
    out.push_back('e');
    out.push_back(negative ? '-' : '+');
    append_integer(out, negative ? -exponent : exponent);
  } else if (exponent < 0) {
    out.append("0.");
    out.append(static_cast<std::size_t>(-exponent - 1), '0');
    out.append(digits);
  } else if (count <= exponent + 1) {
    out.append(digits);
    out.append(static_cast<std::size_t>(exponent + 1 - count), '0');
  } else {
    const auto point = static_cast<std::size_t>(exponent + 1);
    out.append(digits, 0, point);
    out.push_back('.');
    out.append(digits, point);
  }
}

std::string Json::dump() const {
  std::string out;
  dump_to(out);
  return out;
}

void Json::dump_to(std::string& out) const {
  switch (type_) {
    case Type::kBigNumber:
      out.append(as_text());
      return;
    case Type::kArray: {
      char separator = '[';
      for (const Json& item : *payload_.array) {
        out.push_back(separator);
        item.dump_to(out);
        separator = ',';
      }
      out.append(separator == '[' ? "[]" : "]");
      return;
    }
    case Type::kObject: {
      char separator = '{';
      for (const JsonMember& member : *payload_.object) {
        out.push_back(separator);
        append_json_string(out, member.key);
        out.push_back(':');
        member.value.dump_to(out);
        separator = ',';
      }
      out.append(separator == '{' ? "{}" : "}");
      return;
    }
    default:
      append_scalar(out, *this);
  }
}

std::string Json::dump_pretty() const {
  std::string out;
  append_pretty(out, *this, 0);
  out.push_back('\n');
  return out;
}

}  // namespace kintsugi::krm
