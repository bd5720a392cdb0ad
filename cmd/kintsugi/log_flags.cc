#include "cmd/kintsugi/log_flags.h"

#include <optional>
#include <utility>

#include "base/log_level.h"
#include "server/files.h"

namespace kintsugi::cmd {
namespace {

constexpr std::pair<std::string_view, LogFormat> kFormats[] = {
    {"auto", LogFormat::kAuto}, {"json", LogFormat::kJson}, {"logfmt", LogFormat::kLogfmt}};

Expected<void> take_level(std::string_view value, LogLevel& level) {
  const std::optional<LogLevel> known = parse_log_level(value);
  if (!known) {
    return fail(Errc::kConfig,
                "\"" + std::string(value) + "\" is none of error, warn, info, debug");
  }
  level = *known;
  return {};
}

Expected<void> take_format(std::string_view value, LogFormat& format) {
  for (const auto& [name, known] : kFormats) {
    if (value == name) {
      format = known;
      return {};
    }
  }
  return fail(Errc::kConfig, "\"" + std::string(value) + "\" is none of auto, json, logfmt");
}

}  // namespace

FlagGroup log_flags(LogOptions& options) {
  return {"Log",
          {{"log-level", "error|warn|info|debug", "info", "what is logged",
            [&options](std::string_view value) { return take_level(value, options.level); }},
           {"log-format", "auto|json|logfmt", "auto",
            "form of a line; auto: logfmt on a terminal, that of its journal under systemd, else "
            "json",
            [&options](std::string_view value) { return take_format(value, options.format); }},
           {"log-file", "FILE", "stderr", "appends lines to a file; SIGHUP opens it again",
            into(options.file)}}};
}

Expected<void> use(const LogOptions& options) {
  set_log_level(options.level);
  set_log_format(options.format);
  if (options.file.empty()) {
    return {};
  }
  auto opened = set_log_file(server::absolute_path(options.file));
  if (!opened) {
    return fail(std::move(opened.error()).at("--log-file"));
  }
  return {};
}

std::vector<std::string> arguments_of(const LogOptions& options, const std::string& file) {
  std::vector<std::string> out = {"--log-level=" + std::string(level_name(options.level))};
  for (const auto& [name, format] : kFormats) {
    if (options.format == format) {
      out.push_back("--log-format=" + std::string(name));
    }
  }
  if (!file.empty()) {
    out.push_back("--log-file=" + server::absolute_path(file));
  }
  return out;
}

}  // namespace kintsugi::cmd
