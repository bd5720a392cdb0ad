#pragma once

#include <span>
#include <string_view>

namespace kintsugi::proxy {

/// One file of ui/dist. Its bytes live as long as the process.
struct PageFile {
  std::string_view name;   ///< without a folder: "index.html", "app-3F2K.js"
  std::string_view bytes;  ///< as it is there
};

/// What the build has put into the program (cmake/embed_bytes.cmake), by name. Threads: any.
[[nodiscard]] std::span<const PageFile> page_files();

}  // namespace kintsugi::proxy
