#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

/// Processes of this program that another one starts and watches.
namespace kintsugi::server {

/// Where this program is; one that was replaced meanwhile has no name, but can still be run.
[[nodiscard]] std::string own_program();

/// An executable of that name in PATH; nullopt: there is none.
[[nodiscard]] std::optional<std::string> program_in_path(const std::string& name);

/// Starts a program that ends with its parent (SIGTERM), out of reach of the terminal's signals and
/// without the parent's handlers. It reads nothing.
/// @param log_fd  what it writes goes there; -1: where the parent's goes
/// @returns -1: there is no room for a process, errno tells why. The loop's thread.
[[nodiscard]] pid_t start_child(const std::string& program,
                                const std::vector<std::string>& arguments, int log_fd = -1);

/// "exit 70", "signal 9". @param status  of waitpid(2)
[[nodiscard]] std::string how_child_ended(int status);

}  // namespace kintsugi::server
