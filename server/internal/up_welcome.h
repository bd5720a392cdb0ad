#pragma once

#include <string>

#include "server/up_program.h"

/// What who types `kintsugi up` is told.
namespace kintsugi::server {

/// "a proxy", "3 proxies".
[[nodiscard]] std::string proxies_of(const UpOptions& options);
/// On the standard output: where the installation is, and what to do next.
void print_welcome(const UpOptions& options);

}  // namespace kintsugi::server
