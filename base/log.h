#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace kintsugi {

enum class LogLevel : std::uint8_t { kError, kWarn, kInfo, kDebug };

/// One key/value pair of a log line. Keys come from the domain words (shard, cluster, gvr, stream,
/// errc).
struct LogField {
  std::string_view key;
  std::string value;
  bool is_number = false;  ///< of JSON, too
  LogField(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, std::int64_t v)
      : key(k), value(std::to_string(v)), is_number(true) {}
  LogField(std::string_view k, std::uint64_t v)
      : key(k), value(std::to_string(v)), is_number(true) {}
  LogField(std::string_view k, int v) : key(k), value(std::to_string(v)), is_number(true) {}
};

/// Writes one line to stderr, as base/log_output.h says. Constant message, variable fields. Never
/// tokens, keys or bodies. Threads: any; a reader of stderr that does not read costs lines, which
/// are counted, and never waits. Lines above the level cost a comparison.
void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

/// Lines below this level are dropped. Default kInfo. Threads: any.
void set_log_level(LogLevel level);

inline void log_error(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kError, message, fields);
}
inline void log_warn(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kWarn, message, fields);
}
inline void log_info(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kInfo, message, fields);
}
inline void log_debug(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kDebug, message, fields);
}

}  // namespace kintsugi
