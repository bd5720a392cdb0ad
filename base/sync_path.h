#pragma once

#include <string>

namespace kintsugi {

/// Puts on the disk what stands at a path: the content of a file, or the names in a folder. Blocks.
/// @returns 0, or the errno of what could not be done
[[nodiscard]] int sync_path(const std::string& path) noexcept;

}  // namespace kintsugi
