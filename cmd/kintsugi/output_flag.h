#pragma once

#include <string>
#include <vector>

#include "cmd/kintsugi/flags.h"
#include "krm/json.h"

namespace kintsugi::cmd {

/// `-o` and `--output`: one of `allowed`, of which the first is the default. @param target  must
/// outlive the flags' setters
[[nodiscard]] std::vector<Flag> output_flags(std::string& target,
                                             const std::vector<std::string>& allowed);

/// On the standard output, as `form` says. @returns whether that is "json" or "yaml"; nothing is
/// printed else.
bool print_document(const std::string& form, const krm::Json& document);

}  // namespace kintsugi::cmd
