#pragma once

#include <string_view>
#include <vector>

namespace kintsugi::krm {

/// The documents of a YAML text, each without its line of `---` (what stands behind that in the
/// line belongs to it). At least one; they may be empty. Views into the text.
[[nodiscard]] std::vector<std::string_view> yaml_documents(std::string_view text);

}  // namespace kintsugi::krm
