#include <algorithm>
#include <cstdint>

#include "base/hex.h"
#include "krm/internal/yaml_scalar.h"
#include "krm/yaml.h"

namespace kintsugi::krm {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Begins like a number and has nothing but what numbers, dates and times are made of: other
/// readers know more forms than we do.
bool looks_numeric(std::string_view text) {
  const char first = text.front();
  return (is_digit(first) || first == '+' || first == '-' || first == '.') &&
         text.find_first_not_of("0123456789+-._:eExXoOabcdfABCDFTZtz ") == std::string_view::npos;
}

/// Holds C1 controls, line or paragraph separators, a byte order mark or non-characters.
bool has_odd_unicode(std::string_view text) {
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    const auto a = static_cast<unsigned char>(text[i]);
    const auto b = static_cast<unsigned char>(text[i + 1]);
    const auto c = i + 2 < text.size() ? static_cast<unsigned char>(text[i + 2]) : 0;
    if ((a == 0xC2 && b < 0xA0) || (a == 0xE2 && b == 0x80 && (c == 0xA8 || c == 0xA9)) ||
        (a == 0xEF && ((b == 0xBB && c == 0xBF) || (b == 0xBF && c >= 0xBE)))) {
      return true;
    }
  }
  return false;
}

bool has_control(std::string_view text, std::string_view allowed) {
  return std::any_of(text.begin(), text.end(), [allowed](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 || byte == 0x7F) && allowed.find(c) == std::string_view::npos;
  });
}

bool is_plain(std::string_view text) {
  constexpr std::string_view kIndicators = "-?:,[]{}#&*!|>'\"%@`=<~ ";
  if (text.empty() || kIndicators.find(text.front()) != std::string_view::npos ||
      text.back() == ' ' || text.back() == ':' || looks_numeric(text) ||
      text.find(": ") != std::string_view::npos || text.find(" #") != std::string_view::npos ||
      has_control(text, "") || has_odd_unicode(text) || text.starts_with("...")) {
    return false;
  }
  const std::optional<Json> value = resolve_yaml_scalar(text);
  return value && value->is_string();
}

/// Fits a literal block: several lines that a reader cannot take for indentation or fold.
bool is_literal(std::string_view text) {
  return text.find('\n') != std::string_view::npos && text.front() != ' ' && text.front() != '\n' &&
         text.front() != '\t' && !has_control(text, "\n\t") && !has_odd_unicode(text);
}

void append_quoted(std::string& out, std::string_view text) {
  std::string json;
  append_json_string(json, text);
  // JSON leaves some characters bare that YAML does not.
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = std::string_view(json).substr(i);
    const auto byte = static_cast<unsigned char>(json[i]);
    const auto next = rest.size() > 1 ? static_cast<unsigned char>(rest[1]) : 0U;
    if (byte == 0x7F) {
      out.append("\\x7f");
    } else if (byte == 0xC2 && next < 0xA0) {
      out.append("\\x");
      append_hex(out, next);
      ++i;
    } else if (rest.size() > 2 && byte >= 0xE0 && byte < 0xF0 &&
               has_odd_unicode(rest.substr(0, 3)) && !has_odd_unicode(rest.substr(1, 2))) {
      const std::uint32_t code =
          (byte & 15U) << 12U | (next & 63U) << 6U | (static_cast<unsigned char>(rest[2]) & 63U);
      out.append("\\u");
      append_hex(out, code, 4);
      i += 2;
    } else {
      out.push_back(json[i]);
    }
  }
}

void append_literal(std::string& out, std::string_view text, std::size_t indent) {
  const bool ends = text.back() == '\n';
  const bool many = ends && text.size() > 1 && text[text.size() - 2] == '\n';
  out.append(many ? "|+" : ends ? "|" : "|-");
  std::string_view rest = ends ? text.substr(0, text.size() - 1) : text;
  for (;;) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    out.push_back('\n');
    if (!line.empty()) {
      out.append(indent, ' ').append(line);
    }
    if (end == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(end + 1);
  }
}

void append_text(std::string& out, std::string_view text, std::size_t indent) {
  if (is_plain(text)) {
    out.append(text);
  } else if (is_literal(text)) {
    append_literal(out, text, indent);
  } else {
    append_quoted(out, text);
  }
}

void append_key(std::string& out, std::string_view key) {
  if (is_plain(key)) {
    out.append(key);
  } else {
    // Long keys are no simple keys.
    out.append(key.size() > 120 ? "? " : "");
    append_quoted(out, key);
  }
}

/// A value after "key:" or "-"; `indent` is that of its own lines.
void append_value(std::string& out, const Json& value, std::size_t indent, bool after_dash) {
  if (value.size() == 0) {
    out.push_back(' ');
    if (value.is_string()) {
      append_text(out, value.as_string(), indent);
    } else {
      value.dump_to(out);
    }
    return;
  }
  // A container's first line stands behind its dash.
  bool inline_first = after_dash;
  const auto begin_line = [&] {
    if (inline_first) {
      out.push_back(' ');
    } else {
      out.push_back('\n');
      out.append(indent, ' ');
    }
    inline_first = false;
  };
  for (const Json& item : value.items()) {
    begin_line();
    out.push_back('-');
    append_value(out, item, indent + 2, true);
  }
  for (const JsonMember& member : value.members()) {
    begin_line();
    const std::size_t start = out.size();
    append_key(out, member.key);
    if (out.compare(start, 2, "? ") == 0) {
      out.push_back('\n');
      out.append(indent, ' ');
    }
    out.push_back(':');
    const bool list = member.value.is_array() && member.value.size() > 0;
    append_value(out, member.value, list ? indent : indent + 2, false);
  }
}

}  // namespace

std::string to_yaml(const Json& value) {
  std::string out;
  append_value(out, value, value.size() == 0 ? 2 : 0, value.size() != 0);
  out.erase(0, 1);
  out.push_back('\n');
  return out;
}

}  // namespace kintsugi::krm
