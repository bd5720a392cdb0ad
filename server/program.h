#pragma once

#include <string>

/// What every process of this program says of itself.
namespace kintsugi::server {

/// "0.1.0"
[[nodiscard]] const char* version();

/// One line "kintsugi <command>: <text>" on stderr; returns `status`.
int complain(const std::string& command, const std::string& text, int status = 1);

}  // namespace kintsugi::server
