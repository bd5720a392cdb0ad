#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/strings.h"
#include "cel/internal/functions.h"
#include "cel/internal/text.h"
#include "krm/go_text.h"

namespace kintsugi::cel {

namespace {

constexpr int kMaxPrecision = 1000;

std::string clause_error(std::string_view clause, std::string_view rule, const Value& value) {
  return "error during formatting: " + std::string(clause) + " clause can only be used on " +
         std::string(rule) + ", was given " + std::string(value.type_name());
}

/// In text of lists and maps strings are quoted.
bool write(const Value& value, bool nested, std::string& out, std::string& error);

bool write_list(const Value& value, std::string& out, std::string& error) {
  out += '[';
  bool first = true;
  for (const Value& each : value.items()) {
    out += first ? "" : ", ";
    first = false;
    if (!write(each, true, out, error)) {
      return false;
    }
  }
  out += ']';
  return true;
}

bool write_map(const Value& value, std::string& out, std::string& error) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const Value& key : value.keys()) {
    std::pair<std::string, std::string> entry;
    Value item;
    value.find(key, item);
    if (!write(key, true, entry.first, error) || !write(item, true, entry.second, error)) {
      return false;
    }
    entries.push_back(std::move(entry));
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  out += '{';
  for (std::size_t i = 0; i < entries.size(); ++i) {
    out += (i == 0 ? "" : ", ") + entries[i].first + ':' + entries[i].second;
  }
  out += '}';
  return true;
}

std::string fixed_text(double value, int precision) {
  std::string out(400 + static_cast<std::size_t>(precision), '\0');
  const auto end = std::to_chars(out.data(), out.data() + out.size(), value,
                                 std::chars_format::fixed, precision);
  out.resize(static_cast<std::size_t>(end.ptr - out.data()));
  return out;
}

bool write(const Value& value, bool nested, std::string& out, std::string& error) {
  switch (value.kind()) {
    case Kind::kList:
      return write_list(value, out, error);
    case Kind::kMap:
      return write_map(value, out, error);
    case Kind::kString:
      out += nested ? krm::go_quote(value.text()) : std::string(value.text());
      return true;
    case Kind::kBytes:
      out += nested ? 'b' + krm::go_quote(value.text()) : std::string(value.text());
      return true;
    case Kind::kDouble:
      out += nested && std::isfinite(value.real()) ? fixed_text(value.real(), 6)
                                                   : go_double(value.real());
      return true;
    case Kind::kTimestamp:
      out += nested ? "timestamp(" + krm::go_quote(value.print()) + ')' : value.print();
      return true;
    case Kind::kDuration: {
      const std::string text = duration_seconds(value.integer());
      out += nested ? "duration(" + krm::go_quote(text) + ')' : text;
      return true;
    }
    case Kind::kNull:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kUint:
    case Kind::kType:
      out += value.print();
      return true;
    case Kind::kError:
      error = value.text();
      return false;
    default:
      error = clause_error("string",
                           "strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
                           "and timestamps",
                           value);
      return false;
  }
}

std::string in_base(const Value& value, int base) {
  char buffer[80];
  const auto end =
      value.is(Kind::kInt)
          ? std::to_chars(buffer, buffer + sizeof(buffer), value.integer(), base)
          : std::to_chars(buffer, buffer + sizeof(buffer), value.unsigned_integer(), base);
  return {buffer, end.ptr};
}

std::string to_upper(std::string text) {
  for (char& c : text) {
    c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  }
  return text;
}

/// Thousands apart, as the reference prints in its only locale.
std::string grouped(std::string_view text) {
  const std::size_t end = std::min(text.find('.'), text.size());
  std::string out;
  for (std::size_t i = 0; i < end; ++i) {
    const bool digits_before = i > 1 || (i == 1 && text[0] != '-');
    out += digits_before && (end - i) % 3 == 0 ? "," : "";
    out += text[i];
  }
  return out.append(text.substr(end));
}

bool write_number(const Value& value, char clause, int precision, std::string& out,
                  std::string& error) {
  const bool whole = value.is(Kind::kInt) || value.is(Kind::kUint);
  switch (clause) {
    case 'd':
      error = whole ? "" : clause_error("decimal", "integers", value);
      out += whole ? value.print() : "";
      break;
    case 'b':
      error =
          whole || value.is(Kind::kBool) ? "" : clause_error("binary", "integers and bools", value);
      out += whole ? in_base(value, 2) : value.is_true() ? "1" : "0";
      break;
    case 'o':
      error = whole ? "" : clause_error("octal", "integers", value);
      out += whole ? in_base(value, 8) : "";
      break;
    case 'x':
    case 'X': {
      const bool text = value.is(Kind::kString) || value.is(Kind::kBytes);
      error =
          whole || text ? "" : clause_error("hex", "integers, byte buffers, and strings", value);
      const std::string hex = whole  ? in_base(value, 16)
                              : text ? hex_encode(value.text())
                                     : std::string();
      out += clause == 'X' ? to_upper(hex) : hex;
      break;
    }
    default: {
      double number = value.real();
      const std::string_view text = value.is(Kind::kString) ? value.text() : std::string_view();
      if (text == "NaN" || text == "Infinity" || text == "-Infinity") {
        out += text == "NaN" ? "NaN" : text == "Infinity" ? "\u221e" : "-\u221e";
        break;
      }
      if (!value.is(Kind::kDouble)) {
        error = clause == 'f' ? clause_error("fixed-point", "doubles", value)
                              : clause_error("scientific", "doubles", value);
        break;
      }
      if (!std::isfinite(number)) {
        out += std::isnan(number) ? "NaN" : number > 0 ? "\u221e" : "-\u221e";
        break;
      }
      if (clause == 'f') {
        out += grouped(fixed_text(number, precision));
        break;
      }
      std::vector<char> buffer(64 + static_cast<std::size_t>(precision));
      std::snprintf(buffer.data(), buffer.size(), "%.*e", precision, number);
      const std::string plain = buffer.data();
      const std::size_t mark = plain.find('e');
      static constexpr const char* kRaised[] = {"\u2070", "\u00b9", "\u00b2", "\u00b3", "\u2074",
                                                "\u2075", "\u2076", "\u2077", "\u2078", "\u2079"};
      out += plain.substr(0, mark) + "\u202f\u00d7\u202f10";
      for (const char c : plain.substr(mark + 1)) {
        out += c == '-' ? "\u207b" : c == '+' ? "" : kRaised[c - '0'];
      }
    }
  }
  return error.empty();
}

}  // namespace

Value format_string(std::string_view format, const std::vector<Value>& args) {
  std::string out;
  std::size_t used = 0;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    if (++i == format.size()) {
      return Value::error("unexpected end of string");
    }
    if (format[i] == '%') {
      out += '%';
      continue;
    }
    if (used >= args.size()) {
      return Value::error("index " + std::to_string(used) + " out of range");
    }
    int precision = 6;
    if (format[i] == '.') {
      ++i;
      const std::size_t begin = i;
      while (i < format.size() && format[i] >= '0' && format[i] <= '9') {
        ++i;
      }
      const auto parsed = parse_decimal<int>(format.substr(begin, i - begin));
      if (i == format.size() || !parsed) {
        return Value::error(
            "error while parsing precision: could not find end of precision "
            "specifier");
      }
      if (*parsed > kMaxPrecision) {
        return Value::error("precision exceeds the limit");
      }
      precision = *parsed;
    }
    const char clause = format[i];
    const Value& value = args[used++];
    if (value.is_error()) {
      return value;
    }
    std::string error;
    if (clause == 's' ? !write(value, false, out, error)
        : std::string_view("dfebxXo").find(clause) == std::string_view::npos
            ? (error = "could not parse formatting clause: unrecognized formatting clause \"" +
                       std::string(1, clause) + '"',
               true)
            : !write_number(value, clause, precision, out, error)) {
      return Value::error(std::move(error));
    }
  }
  return Value::string(std::move(out));
}

}  // namespace kintsugi::cel
