#include <algorithm>
#include <array>
#include <limits>

#include "cel/internal/functions.h"
#include "cel/internal/text.h"

namespace kintsugi::cel {

namespace {

using Runes = std::vector<char32_t>;

std::string_view text(const Args& args, std::size_t index) { return args[index].text(); }

Value out_of_range(std::int64_t index) {
  return Value::error("index out of range: " + std::to_string(index));
}

Value number(std::size_t value) { return Value::integer(static_cast<std::int64_t>(value)); }

Value contains(const Args& args) {
  return Value::boolean(text(args, 0).find(text(args, 1)) != std::string_view::npos);
}
Value starts_with(const Args& args) {
  return Value::boolean(text(args, 0).starts_with(text(args, 1)));
}
Value ends_with(const Args& args) { return Value::boolean(text(args, 0).ends_with(text(args, 1))); }

Value char_at(const Args& args) {
  const Runes all = runes(text(args, 0));
  const std::int64_t index = args[1].integer();
  if (index < 0 || index > static_cast<std::int64_t>(all.size())) {
    return out_of_range(index);
  }
  const auto at = static_cast<std::size_t>(index);
  return Value::string(at == all.size() ? "" : to_utf8(all, at, at + 1));
}

Value index_of(const Args& args) {
  const std::int64_t offset = args.count == 3 ? args[2].integer() : 0;
  if (offset < 0) {
    return out_of_range(offset);
  }
  const Runes all = runes(text(args, 0));
  const Runes part = runes(text(args, 1));
  const auto from = static_cast<std::size_t>(offset);
  if (part.empty()) {
    return number(std::min(from, all.size()));
  }
  if (from >= all.size()) {
    return Value::integer(-1);
  }
  const auto found = std::search(all.begin() + static_cast<std::ptrdiff_t>(from), all.end(),
                                 part.begin(), part.end());
  return found == all.end() ? Value::integer(-1) : Value::integer(found - all.begin());
}

Value last_index_of(const Args& args) {
  const Runes all = runes(text(args, 0));
  const Runes part = runes(text(args, 1));
  if (args.count == 2) {
    if (part.empty()) {
      return number(all.size());
    }
    if (text(args, 0).size() < text(args, 1).size()) {
      return Value::integer(-1);
    }
  }
  const std::int64_t offset =
      args.count == 3 ? args[2].integer() : static_cast<std::int64_t>(all.size()) - 1;
  if (offset < 0) {
    return out_of_range(offset);
  }
  const auto from = static_cast<std::size_t>(offset);
  if (part.empty()) {
    return number(std::min(from, all.size()));
  }
  if (from >= all.size() || part.size() > all.size()) {
    return Value::integer(-1);
  }
  const std::size_t last = std::min(from, all.size() - part.size());
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(last + part.size());
  const auto found = std::find_end(all.begin(), end, part.begin(), part.end());
  return found == end ? Value::integer(-1) : Value::integer(found - all.begin());
}

template <char kFrom, char kTo>
Value map_ascii(const Args& args) {
  std::string out(text(args, 0));
  for (char& c : out) {
    if (c >= kFrom && c <= kFrom + 25) {
      c = static_cast<char>(c - kFrom + kTo);
    }
  }
  return Value::string(std::move(out));
}

std::size_t first_rune(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return std::min(length, bytes.size());
}

Value replace(const Args& args) {
  std::string_view rest = text(args, 0);
  const std::string_view old = text(args, 1);
  const std::string_view fresh = text(args, 2);
  std::int64_t count = args.count == 4 ? args[3].integer() : -1;
  constexpr std::size_t kMaxResult = std::size_t{64} << 20U;
  std::string out;
  if (old.empty()) {
    while (count != 0) {
      out += fresh;
      --count;
      if (rest.empty() || out.size() > kMaxResult) {
        break;
      }
      const std::size_t length = first_rune(rest);
      out += rest.substr(0, length);
      rest.remove_prefix(length);
    }
    return Value::string(out.append(rest));
  }
  while (count != 0 && out.size() <= kMaxResult) {
    const std::size_t found = rest.find(old);
    if (found == std::string_view::npos) {
      break;
    }
    out.append(rest.substr(0, found)).append(fresh);
    rest.remove_prefix(found + old.size());
    --count;
  }
  return Value::string(out.append(rest));
}

Value split(const Args& args) {
  std::string_view rest = text(args, 0);
  const std::string_view separator = text(args, 1);
  std::int64_t limit = args.count == 3 ? args[2].integer() : -1;
  std::vector<Value> out;
  if (limit == 0) {
    return Value::list({});
  }
  if (limit < 0) {
    limit = std::numeric_limits<std::int64_t>::max();
  }
  const auto piece = [&](std::string_view part) { return Value::part_of(args[0], part); };
  if (separator.empty()) {
    while (!rest.empty()) {
      const bool last = static_cast<std::int64_t>(out.size()) + 1 >= limit;
      const std::size_t length = last ? rest.size() : first_rune(rest);
      out.push_back(piece(rest.substr(0, length)));
      rest.remove_prefix(length);
    }
    return Value::list(std::move(out));
  }
  while (static_cast<std::int64_t>(out.size()) + 1 < limit) {
    const std::size_t found = rest.find(separator);
    if (found == std::string_view::npos) {
      break;
    }
    out.push_back(piece(rest.substr(0, found)));
    rest.remove_prefix(found + separator.size());
  }
  out.push_back(piece(rest));
  return Value::list(std::move(out));
}

Value substring(const Args& args) {
  const Runes all = runes(text(args, 0));
  const auto size = static_cast<std::int64_t>(all.size());
  const std::int64_t begin = args[1].integer();
  const std::int64_t end = args.count == 3 ? args[2].integer() : size;
  if (args.count == 3 && begin > end) {
    return Value::error("invalid substring range. start: " + std::to_string(begin) +
                        ", end: " + std::to_string(end));
  }
  if (begin < 0 || begin > size) {
    return out_of_range(begin);
  }
  if (end < 0 || end > size) {
    return out_of_range(end);
  }
  return Value::string(
      to_utf8(all, static_cast<std::size_t>(begin), static_cast<std::size_t>(end)));
}

bool is_space(char32_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

Value trim(const Args& args) {
  const Runes all = runes(text(args, 0));
  std::size_t begin = 0;
  std::size_t end = all.size();
  while (begin < end && is_space(all[begin])) {
    ++begin;
  }
  while (end > begin && is_space(all[end - 1])) {
    --end;
  }
  return Value::string(to_utf8(all, begin, end));
}

Value quote(const Args& args) {
  static constexpr std::string_view kFrom = "\a\b\f\n\r\t\v\\\"";
  static constexpr std::string_view kTo = "abfnrtv\\\"";
  std::string out = "\"";
  for (const char c : text(args, 0)) {
    if (const std::size_t place = kFrom.find(c); place != std::string_view::npos) {
      out += '\\';
      out += kTo[place];
    } else {
      out += c;
    }
  }
  return Value::string(out + '"');
}

Value join(const Args& args) {
  const std::string_view separator = args.count == 2 ? text(args, 1) : std::string_view();
  std::string out;
  bool first = true;
  for (const Value& each : args[0].items()) {
    if (!first) {
      out += separator;
    }
    first = false;
    if (!each.is(Kind::kString)) {
      return each.is_error() ? each : Value::error("join: invalid input: " + each.print());
    }
    out += each.text();
  }
  return Value::string(std::move(out));
}

Value format(const Args& args) { return format_string(text(args, 0), args[1].items()); }

/// The key of a member as JSON pointers have it.
Value escape_key(const Args& args) {
  std::string out;
  for (const char c : args[0].text()) {
    out += c == '/' ? "~1" : c == '~' ? "~0" : std::string(1, c);
  }
  return Value::string(std::move(out));
}

constexpr auto kRows = std::array{
    OverloadRow{"contains", "contains_string", "string.(string) -> bool", contains},
    OverloadRow{"startsWith", "starts_with_string", "string.(string) -> bool", starts_with},
    OverloadRow{"endsWith", "ends_with_string", "string.(string) -> bool", ends_with},
    OverloadRow{"charAt", "string_char_at_int", "string.(int) -> string", char_at},
    OverloadRow{"indexOf", "string_index_of_string", "string.(string) -> int", index_of},
    OverloadRow{"indexOf", "string_index_of_string_int", "string.(string, int) -> int", index_of},
    OverloadRow{"lastIndexOf", "string_last_index_of_string", "string.(string) -> int",
                last_index_of},
    OverloadRow{"lastIndexOf", "string_last_index_of_string_int", "string.(string, int) -> int",
                last_index_of},
    OverloadRow{"jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string", "(string) -> string",
                escape_key},
    OverloadRow{"lowerAscii", "string_lower_ascii", "string.() -> string", map_ascii<'A', 'a'>},
    OverloadRow{"upperAscii", "string_upper_ascii", "string.() -> string", map_ascii<'a', 'A'>},
    OverloadRow{"replace", "string_replace_string_string", "string.(string, string) -> string",
                replace},
    OverloadRow{"replace", "string_replace_string_string_int",
                "string.(string, string, int) -> string", replace},
    OverloadRow{"split", "string_split_string", "string.(string) -> list(string)", split},
    OverloadRow{"split", "string_split_string_int", "string.(string, int) -> list(string)", split},
    OverloadRow{"substring", "string_substring_int", "string.(int) -> string", substring},
    OverloadRow{"substring", "string_substring_int_int", "string.(int, int) -> string", substring},
    OverloadRow{"trim", "string_trim", "string.() -> string", trim},
    OverloadRow{"strings.quote", "strings_quote", "(string) -> string", quote},
    OverloadRow{"join", "list_join", "list(string).() -> string", join},
    OverloadRow{"join", "list_join_string", "list(string).(string) -> string", join},
    OverloadRow{"format", "string_format", "string.(list(dyn)) -> string", format},
};

}  // namespace

std::span<const OverloadRow> string_rows() { return kRows; }

}  // namespace kintsugi::cel
