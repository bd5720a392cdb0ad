#pragma once

#include <string>

#include "cmd/kintsugi/flags.h"
#include "server/tenant_options.h"

namespace kintsugi::cmd {

/// The options of `kintsugi shard` and `kintsugi up` about tenants.
/// @param options        filled when the flags are parsed; has to live until then.
/// @param allow_default  shown for --outgoing-allow.
[[nodiscard]] FlagGroup tenant_flags(server::TenantOptions& options,
                                     const std::string& allow_default);

}  // namespace kintsugi::cmd
