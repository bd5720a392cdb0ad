#pragma once

#include <span>
#include <string_view>

namespace kintsugi::server {

/// A file of `configs/` as the build found it (cmake/embed.cmake).
struct EmbeddedFile {
  std::string_view name;  ///< "messaging/export.yaml"
  std::string_view text;
};
/// All that are part of this program, in the order of their names within a folder.
[[nodiscard]] std::span<const EmbeddedFile> embedded_files();

}  // namespace kintsugi::server
