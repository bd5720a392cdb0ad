#include "base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/hex.h"
#include "base/log_level.h"
#include "base/log_output.h"
#include "base/shown_text.h"
#include "base/strings.h"
#include "base/time.h"

namespace kintsugi {
namespace {

constexpr std::string_view kLevelNames[] = {"error", "warn", "info", "debug"};
constexpr std::string_view kJournalPrefixes[] = {"<3>", "<4>", "<6>", "<7>"};  // of syslog

constexpr std::size_t kMostShown = 1024;  // bytes of a value

/// What lines look like, of a format and of what stderr is.
enum class Form : std::uint8_t { kUnknown, kJson, kLogfmt, kJournal };

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<LogFormat> g_format{LogFormat::kAuto};
std::atomic<Form> g_form{Form::kUnknown};  // of kAuto, until stderr becomes another file
std::array<std::atomic<std::uint64_t>, std::size(kLevelNames)> g_lines{};
std::atomic<std::uint64_t> g_dropped{0}, g_told{0};
std::mutex g_pipe;   // held while it is asked whether a line fits, and written
std::string g_file;  // of set_log_file()

bool is_same_file(int one, int other) {
  struct stat a {
  }, b{};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

/// Whether stderr is what systemd has given to its journal: "<device>:<inode>".
bool is_journal() {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat file {};
  return stream != nullptr && ::fstat(STDERR_FILENO, &file) == 0 &&
         stream == std::to_string(file.st_dev) + ":" + std::to_string(file.st_ino);
}

Form form() {
  const LogFormat format = g_format.load(std::memory_order_relaxed);
  if (format != LogFormat::kAuto) {
    return format == LogFormat::kJson ? Form::kJson : Form::kLogfmt;
  }
  Form known = g_form.load(std::memory_order_relaxed);
  if (known == Form::kUnknown) {
    known = ::isatty(STDERR_FILENO) == 1 ? Form::kLogfmt
            : is_journal()               ? Form::kJournal
                                         : Form::kJson;
    g_form.store(known, std::memory_order_relaxed);
  }
  return known;
}

/// What a line shows of a value: UTF-8, and not all of a long one.
std::string shown(std::string_view text) {
  std::string out = shown_text(text, kMostShown);
  if (text.size() > kMostShown) {
    out.append("… (").append(std::to_string(text.size())).append(" bytes)");
  }
  return out;
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      append_hex(out, byte);
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

std::string json_line(LogLevel level, std::string_view message,
                      std::initializer_list<LogField> fields) {
  std::string line;
  line.reserve(256);
  line.append("{\"ts\":\"").append(rfc3339_micro(unix_microseconds()));
  line.append("\",\"level\":\"").append(level_name(level)).append("\",\"msg\":");
  append_quoted(line, message);
  for (const LogField& field : fields) {
    line += ',';
    append_quoted(line, field.key);
    line += ':';
    if (field.is_number) {
      line.append(field.value);
    } else {
      append_quoted(line, shown(field.value));
    }
  }
  return line + '}';
}

/// @param head  what stands before the message.
std::string plain_line(std::string head, std::string_view message,
                       std::initializer_list<LogField> fields) {
  std::string line = std::move(head);
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
  return line;
}

std::string make_line(LogLevel level, std::string_view message,
                      std::initializer_list<LogField> fields) {
  switch (form()) {
    case Form::kJournal:
      return plain_line(std::string(kJournalPrefixes[static_cast<std::size_t>(level)]), message,
                        fields);
    case Form::kLogfmt:
      return plain_line(
          rfc3339_micro(unix_microseconds()) + " " + std::string(level_name(level)) + " ", message,
          fields);
    default:
      return json_line(level, message, fields);
  }
}

/// Whether stderr takes a line without waiting: a file does; of a pipe, socket or terminal that is
/// writable a line of this size is, too, which poll(2) promises for PIPE_BUF of a pipe.
bool is_ready() {
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & (POLLOUT | POLLERR)) == POLLOUT;
}

/// @returns whether all of it was written. Longer lines than a pipe takes at once go part by part.
bool write_line(std::string_view line) {
  constexpr std::size_t kPart = 4096;  // PIPE_BUF of Linux
  const std::lock_guard hold(g_pipe);
  while (!line.empty()) {
    if (!is_ready()) {
      return false;
    }
    const ssize_t written = ::write(STDERR_FILENO, line.data(), std::min(line.size(), kPart));
    if (written <= 0 && errno != EINTR) {
      return false;
    }
    line.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
  return true;
}

/// Lines that could not be written are told of once the next one can.
void tell_dropped() {
  const std::uint64_t dropped = g_dropped.load(std::memory_order_relaxed);
  std::uint64_t told = g_told.load(std::memory_order_relaxed);
  if (dropped == told || !is_ready() || !g_told.compare_exchange_strong(told, dropped)) {
    return;
  }
  write_line(make_line(LogLevel::kWarn, "log lines were dropped", {{"count", dropped - told}}) +
             '\n');
}

}  // namespace

bool is_logged(LogLevel level) noexcept { return level <= g_level.load(std::memory_order_relaxed); }

LogLevel log_level() noexcept { return g_level.load(std::memory_order_relaxed); }

void set_log_level(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }

std::string_view level_name(LogLevel level) noexcept {
  return kLevelNames[static_cast<std::size_t>(level)];
}

std::optional<LogLevel> parse_log_level(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::size(kLevelNames); ++i) {
    if (name == kLevelNames[i]) {
      return static_cast<LogLevel>(i);
    }
  }
  return std::nullopt;
}

void set_log_format(LogFormat format) noexcept {
  g_format.store(format, std::memory_order_relaxed);
}

Expected<void> set_log_file(std::string path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (file < 0) {
    return fail(Errc::kIo, path + ": " + std::strerror(errno));
  }
  const bool both = is_same_file(STDOUT_FILENO, STDERR_FILENO);
  const bool taken =
      ::dup2(file, STDERR_FILENO) >= 0 && (!both || ::dup2(file, STDOUT_FILENO) >= 0);
  const int why = errno;
  ::close(file);
  if (!taken) {
    return fail(Errc::kIo, path + ": " + std::strerror(why));
  }
  g_form.store(Form::kUnknown, std::memory_order_relaxed);
  g_file = std::move(path);
  return {};
}

void reopen_log_file() {
  if (g_file.empty()) {
    return;
  }
  if (auto opened = set_log_file(g_file); !opened) {
    log_error("the log file cannot be opened again; lines go to the one before",
              {{"error", opened.error().to_string()}});
  }
}

LogCounts log_counts() noexcept {
  LogCounts out;
  for (std::size_t i = 0; i < out.lines.size(); ++i) {
    out.lines[i] = g_lines[i].load(std::memory_order_relaxed);
  }
  out.dropped = g_dropped.load(std::memory_order_relaxed);
  return out;
}

void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!is_logged(level)) {
    return;
  }
  tell_dropped();
  if (write_line(make_line(level, message, fields) + '\n')) {
    g_lines[static_cast<std::size_t>(level)].fetch_add(1, std::memory_order_relaxed);
  } else {
    g_dropped.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace kintsugi
