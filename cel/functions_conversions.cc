#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/strings.h"
#include "cel/internal/functions.h"
#include "cel/internal/text.h"

namespace kintsugi::cel {

namespace {

Value same(const Args& args) { return args[0]; }

Value cannot(const Value& value, std::string_view type) {
  return Value::error("type conversion error from '" + std::string(value.type_name()) + "' to '" +
                      std::string(type) + "'");
}

template <class Integer>
bool parse_integer(std::string_view text, Integer& out) {
  if constexpr (std::is_signed_v<Integer>) {
    if (text.size() > 1 && text[0] == '+' && text[1] != '-') {
      text.remove_prefix(1);
    }
  }
  const auto end = std::from_chars(text.data(), text.data() + text.size(), out);
  return !text.empty() && end.ec == std::errc() && end.ptr == text.data() + text.size();
}

Value to_bool(const Args& args) {
  if (args[0].is(Kind::kBool)) {
    return args[0];
  }
  const std::string_view text = args[0].text();
  for (const std::string_view each : {"1", "t", "T", "true", "TRUE", "True"}) {
    if (text == each) {
      return Value::boolean(true);
    }
  }
  for (const std::string_view each : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (text == each) {
      return Value::boolean(false);
    }
  }
  return cannot(args[0], "bool");
}

Value to_bytes(const Args& args) {
  return args[0].is(Kind::kBytes) ? args[0] : Value::bytes(std::string(args[0].text()));
}

Value to_double(const Args& args) {
  const Value& value = args[0];
  switch (value.kind()) {
    case Kind::kInt:
      return Value::real(static_cast<double>(value.integer()));
    case Kind::kUint:
      return Value::real(static_cast<double>(value.unsigned_integer()));
    case Kind::kString: {
      // strtod takes what Go takes, and blanks and "nan(…)" besides.
      const std::string text(value.text());
      const bool starts = !text.empty() && text.front() != ' ' && text.front() != '\t' &&
                          text.front() != '\n' && text.front() != '\v' && text.front() != '\f' &&
                          text.front() != '\r';
      char* end = nullptr;
      const double parsed = starts ? std::strtod(text.c_str(), &end) : 0;
      const bool word = text.find('(') != std::string::npos;
      if (!starts || word || end != text.c_str() + text.size() ||
          (std::isinf(parsed) && text.find_first_of("0123456789") != std::string::npos)) {
        return cannot(value, "double");
      }
      return Value::real(parsed);
    }
    default:
      return value;
  }
}

Value to_duration(const Args& args) {
  if (args[0].is(Kind::kDuration)) {
    return args[0];
  }
  const auto parsed = parse_duration(args[0].text());
  return parsed ? Value::duration(*parsed) : cannot(args[0], "google.protobuf.Duration");
}

Value to_int(const Args& args) {
  const Value& value = args[0];
  switch (value.kind()) {
    case Kind::kDouble:
      if (!(value.real() > -9223372036854775808.0 && value.real() < 9223372036854775808.0)) {
        return Value::error("integer overflow");
      }
      return Value::integer(static_cast<std::int64_t>(value.real()));
    case Kind::kUint:
      return value.integer() < 0 ? Value::error("integer overflow")
                                 : Value::integer(value.integer());
    case Kind::kDuration:
    case Kind::kTimestamp:
      return Value::integer(value.integer());
    case Kind::kString: {
      std::int64_t parsed = 0;
      return parse_integer(value.text(), parsed) ? Value::integer(parsed) : cannot(value, "int");
    }
    default:
      return value;
  }
}

Value to_uint(const Args& args) {
  const Value& value = args[0];
  switch (value.kind()) {
    case Kind::kDouble:
      if (!(value.real() >= 0 && value.real() < 18446744073709551616.0)) {
        return Value::error("unsigned integer overflow");
      }
      return Value::unsigned_integer(static_cast<std::uint64_t>(value.real()));
    case Kind::kInt:
      return value.integer() < 0
                 ? Value::error("unsigned integer overflow")
                 : Value::unsigned_integer(static_cast<std::uint64_t>(value.integer()));
    case Kind::kString: {
      std::uint64_t parsed = 0;
      return parse_integer(value.text(), parsed) ? Value::unsigned_integer(parsed)
                                                 : cannot(value, "uint");
    }
    default:
      return value;
  }
}

Value to_string(const Args& args) {
  const Value& value = args[0];
  switch (value.kind()) {
    case Kind::kBytes:
      return is_valid_utf8(value.text())
                 ? Value::string(std::string(value.text()))
                 : Value::error("invalid UTF-8 in bytes, cannot convert to string");
    case Kind::kDuration:
      return Value::string(duration_seconds(value.integer()));
    case Kind::kString:
      return value;
    default:
      return Value::string(value.print());
  }
}

Value to_timestamp(const Args& args) {
  const Value& value = args[0];
  if (value.is(Kind::kTimestamp)) {
    return value;
  }
  ParsedTime time{value.integer(), 0};
  if (value.is(Kind::kString)) {
    const auto parsed = parse_timestamp(value.text());
    if (!parsed) {
      return cannot(value, "google.protobuf.Timestamp");
    }
    time = *parsed;
  }
  return time.seconds < kMinTimestamp || time.seconds > kMaxTimestamp
             ? Value::error("timestamp overflow")
             : Value::timestamp(time.seconds, time.nanos);
}

Value type_of(const Args& args) { return Value::type(std::string(args[0].type_name())); }

const auto kRows = std::array{
    OverloadRow{"type", "type", "(A) -> type(A)", type_of},
    OverloadRow{"dyn", "to_dyn", "(A) -> dyn", same},
    OverloadRow{"bool", "bool_to_bool", "(bool) -> bool", to_bool},
    OverloadRow{"bool", "string_to_bool", "(string) -> bool", to_bool},
    OverloadRow{"bytes", "bytes_to_bytes", "(bytes) -> bytes", to_bytes},
    OverloadRow{"bytes", "string_to_bytes", "(string) -> bytes", to_bytes},
    OverloadRow{"double", "double_to_double", "(double) -> double", to_double},
    OverloadRow{"double", "int64_to_double", "(int) -> double", to_double},
    OverloadRow{"double", "string_to_double", "(string) -> double", to_double},
    OverloadRow{"double", "uint64_to_double", "(uint) -> double", to_double},
    OverloadRow{"duration", "duration_to_duration", "(duration) -> duration", to_duration},
    OverloadRow{"duration", "string_to_duration", "(string) -> duration", to_duration},
    OverloadRow{"int", "int64_to_int64", "(int) -> int", to_int},
    OverloadRow{"int", "double_to_int64", "(double) -> int", to_int},
    OverloadRow{"int", "duration_to_int64", "(duration) -> int", to_int},
    OverloadRow{"int", "string_to_int64", "(string) -> int", to_int},
    OverloadRow{"int", "timestamp_to_int64", "(timestamp) -> int", to_int},
    OverloadRow{"int", "uint64_to_int64", "(uint) -> int", to_int},
    OverloadRow{"string", "string_to_string", "(string) -> string", to_string},
    OverloadRow{"string", "bool_to_string", "(bool) -> string", to_string},
    OverloadRow{"string", "bytes_to_string", "(bytes) -> string", to_string},
    OverloadRow{"string", "double_to_string", "(double) -> string", to_string},
    OverloadRow{"string", "duration_to_string", "(duration) -> string", to_string},
    OverloadRow{"string", "int64_to_string", "(int) -> string", to_string},
    OverloadRow{"string", "timestamp_to_string", "(timestamp) -> string", to_string},
    OverloadRow{"string", "uint64_to_string", "(uint) -> string", to_string},
    OverloadRow{"timestamp", "timestamp_to_timestamp", "(timestamp) -> timestamp", to_timestamp},
    OverloadRow{"timestamp", "int64_to_timestamp", "(int) -> timestamp", to_timestamp},
    OverloadRow{"timestamp", "string_to_timestamp", "(string) -> timestamp", to_timestamp},
    OverloadRow{"uint", "uint64_to_uint64", "(uint) -> uint", to_uint},
    OverloadRow{"uint", "double_to_uint64", "(double) -> uint", to_uint},
    OverloadRow{"uint", "int64_to_uint64", "(int) -> uint", to_uint},
    OverloadRow{"uint", "string_to_uint64", "(string) -> uint", to_uint},
};

}  // namespace

std::span<const OverloadRow> conversion_rows() { return kRows; }

}  // namespace kintsugi::cel
