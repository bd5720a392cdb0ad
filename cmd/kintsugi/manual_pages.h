#pragma once

#include <string>

#include "cmd/kintsugi/build_data.h"
#include "cmd/kintsugi/commands.h"

namespace kintsugi::cmd {

/// kintsugi-<command>.1, in the macros of man(7): usage, description, options by group, as help has
/// them. Dated and versioned by `data`.
[[nodiscard]] std::string manual_page(const Command& command, const BuildData& data);
/// kintsugi.1: the commands.
[[nodiscard]] std::string manual_overview(const BuildData& data);

}  // namespace kintsugi::cmd
