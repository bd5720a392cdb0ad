#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace kintsugi::server {

/// Of what is no secret; the others are read by base/secret_file.h.
/// @error kConfig names the file and the cause.
[[nodiscard]] Expected<std::string> read_file(const std::string& path);
/// replace_file() of base/secret_file.h. @error kIo, kFull.
[[nodiscard]] Expected<void> write_file(const std::string& path, std::string_view text,
                                        unsigned mode = 0644);
/// mkdir -p with mode 0700 for what is new. @error kIo.
[[nodiscard]] Expected<void> make_directories(const std::string& path);
[[nodiscard]] bool file_exists(const std::string& path);
[[nodiscard]] std::string absolute_path(const std::string& path);

}  // namespace kintsugi::server
