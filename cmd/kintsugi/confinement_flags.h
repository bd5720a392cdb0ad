#pragma once

#include "cmd/kintsugi/flags.h"
#include "server/confinement.h"

namespace kintsugi::cmd {

/// The options of `kintsugi proxy` and `kintsugi shard` about what the process gives up.
/// @param options  filled when the flags are parsed; has to live until then.
[[nodiscard]] FlagGroup confinement_flags(server::Confinement& options);

}  // namespace kintsugi::cmd
