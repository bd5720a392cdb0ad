#include "base/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/log_level.h"
#include "base/shown_text.h"
#include "base/strings.h"
#include "base/time.h"

namespace kintsugi {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};

constexpr std::string_view kLevelNames[] = {"error", "warn", "info", "debug"};

constexpr std::size_t kMostShown = 1024;  // bytes of a value

/// What a line shows of a value: UTF-8, and not all of a long one.
std::string shown(std::string_view text) {
  std::string out = shown_text(text, kMostShown);
  if (text.size() > kMostShown) {
    out.append("… (").append(std::to_string(text.size())).append(" bytes)");
  }
  return out;
}

void append_quoted(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

bool is_plain(std::string_view text) {
  return !text.empty() && std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f;
  });
}

}  // namespace

bool is_logged(LogLevel level) noexcept { return level <= g_level.load(std::memory_order_relaxed); }

void set_log_level(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }

void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!is_logged(level)) {
    return;
  }
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  const std::string_view level_name = kLevelNames[static_cast<std::size_t>(level)];
  std::string line;
  line.reserve(256);
  if (terminal) {
    line.append(rfc3339_micro(unix_microseconds())).append(" ").append(level_name).append(" ");
    line.append(message);
    for (const LogField& field : fields) {
      const std::string value = shown(field.value);
      line.append(" ").append(field.key).append("=");
      if (is_plain(value)) {
        line.append(value);
      } else {
        append_quoted(line, value);
      }
    }
  } else {
    line.append("{\"ts\":\"").append(rfc3339_micro(unix_microseconds()));
    line.append("\",\"level\":\"").append(level_name).append("\",\"msg\":");
    append_quoted(line, message);
    for (const LogField& field : fields) {
      line += ',';
      append_quoted(line, field.key);
      line += ':';
      append_quoted(line, shown(field.value));
    }
    line += '}';
  }
  line += '\n';
  // A lost line is better than a stuck loop.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace kintsugi
