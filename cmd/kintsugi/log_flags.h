#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/log_output.h"
#include "cmd/kintsugi/flags.h"

namespace kintsugi::cmd {

/// Where a process writes its log, how much and in what form (OP-301, OP-302).
struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kAuto;
  std::string file;  ///< "": stderr
};

/// --log-level, --log-format, --log-file.
/// @param options  filled when the flags are parsed; has to live until then.
[[nodiscard]] FlagGroup log_flags(LogOptions& options);

/// From now on log() follows it. @error kIo: the file; names the option.
[[nodiscard]] Expected<void> use(const LogOptions& options);

/// What another process of this program has to be told to have the same level and form; and to
/// write to `file`, unless that is empty.
[[nodiscard]] std::vector<std::string> arguments_of(const LogOptions& options,
                                                    const std::string& file);

}  // namespace kintsugi::cmd
