#pragma once

#include <string>

namespace kintsugi::cmd {

/// Scripts that complete subcommands, options, choices, files and folders of `kintsugi` and
/// `kcp-front-proxy`. Made from the tables of commands(); no process is asked while somebody types.
[[nodiscard]] std::string bash_completion();
[[nodiscard]] std::string zsh_completion();
[[nodiscard]] std::string fish_completion();

}  // namespace kintsugi::cmd
