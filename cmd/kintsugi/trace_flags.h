#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cmd/kintsugi/flags.h"
#include "serving/trace_gate.h"

namespace kintsugi::cmd {

/// --tracing-… of `kintsugi shard` and `kintsugi up`.
/// @param config  filled when the flags are parsed; has to live until then.
[[nodiscard]] FlagGroup trace_flags(serving::TracingConfig& config);

/// @error kConfig names the option. File names are absolute from then on.
[[nodiscard]] Expected<void> understand(serving::TracingConfig& config);

/// What another process of this program is told to do the same.
[[nodiscard]] std::vector<std::string> arguments_of(const serving::TracingConfig& config);

}  // namespace kintsugi::cmd
